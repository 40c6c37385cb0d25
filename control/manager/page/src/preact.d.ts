// What the page uses of preact, in our own words: the released file has no types beside it.

export type Child = VNode | string | number | boolean | null | undefined | Child[];

export interface VNode {
  type: unknown;
  props: unknown;
}

export function h(type: unknown, props: unknown, ...children: Child[]): VNode;
export function render(node: VNode, parent: Element): void;
export function Fragment(props: { children?: Child }): VNode;

export class Component<Props = unknown, State = unknown> {
  constructor(props: Props);
  props: Readonly<Props>;
  state: Readonly<State>;
  /** `this.state` is what was drawn last: a change of what is there is a function of it. */
  setState(change: Partial<State> | ((state: Readonly<State>) => Partial<State>)): void;
  render(): Child;
}

declare global {
  namespace JSX {
    type Element = VNode;
    interface ElementClass {
      render(): Child;
    }
    interface ElementAttributesProperty {
      props: unknown;
    }
    interface ElementChildrenAttribute {
      children: unknown;
    }
    interface IntrinsicAttributes {
      key?: string | number;
    }
    interface IntrinsicElements {
      [name: string]: { [name: string]: unknown };
    }
  }
}

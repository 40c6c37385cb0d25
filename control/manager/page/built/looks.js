// Looks at what events changed: one at a time, so that no older answer comes after a newer one.
/** Between an event and a look at what it changed, so that many events are one look. */
const LOOK_MS = 300;
export class Looks {
    /** `look` fails never. */
    constructor(look) {
        this.running = null;
        this.next = null;
        this.look = look;
    }
    /** Looks soon. */
    soon() {
        this.timer ??= setTimeout(() => void this.now(), LOOK_MS);
    }
    /** Looks now, or as soon as the look that is under way is done: that may be too early. */
    now() {
        this.stop();
        this.next ??= this.after(this.running);
        return this.next;
    }
    async after(before) {
        await before;
        this.next = null;
        this.running = this.look();
        await this.running;
    }
    /** Has no look taken soon any more. */
    stop() {
        clearTimeout(this.timer);
        this.timer = undefined;
    }
}

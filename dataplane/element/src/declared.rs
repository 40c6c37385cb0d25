//! Arguments and handlers that are declared once, on the struct that has them.

use std::fmt::Display;
use std::ops::RangeBounds;

use thruway_packet::Anno;

pub use thruway_macros::{Arguments, Handlers};

use crate::arg_error::ArgErrors;
use crate::args::Args;
use crate::cx::Cx;
use crate::later::HandlerError;
use crate::spec::{Arg, Handler, Ty};
use crate::values::{AnnoArg, Bandwidth, FromArg, Nanos, Size, UdpPort};

/// A struct that is made of arguments. The derive macro of the same name implements it.
///
/// Each field with an attribute `#[arg(RULE, ...)]` is an argument, in the order of the fields.
/// RULE is `required`, `optional`, `keyword`, `required_keyword` or `rest` (see [`ArgRule`]). The
/// name is the field's in capitals; the field's type names the argument's ([`FromArg::TY`]); the
/// manual's text is the doc comment. A field of type `Option` is `None` where nothing is given.
/// All wrong values are reported at once. Behind RULE may stand:
///
/// | | |
/// |---|---|
/// | `or = "text"` | the default, as a user would write it |
/// | `else = value` | the same as a value, where it depends on something |
/// | `range = 1..=8` | values outside are refused |
/// | `as = u32` | the type that the text is read as; see [`IntoField`] |
/// | `via = check` | a function from what was read to the field's value, or to an error text |
/// | `name = "NAME"`, `ty = Ty::Any` | another name or type |
/// | `checked = bool` | with a name: an argument that is checked and not kept |
/// | `unread` | with a name and `ty`, or `like`: one that makes no difference, or that `#[new(...)]` reads from `args` |
/// | `value = u32` | with a name: one that no field keeps; a variable of its name in lower case, for `#[new(...)]` |
/// | `"text"`, `doc = TEXT` | the manual's text |
///
/// `#[arg(like = EXPRESSION, ...)]` is one that is declared elsewhere, for several elements.
///
/// Fields without the attribute have their default value, or that of `#[new(expression)]`, in which
/// `args`, all arguments and the fields above may be used, and `?`. A field `#[part]` has arguments
/// of its own, which stand in its place. A field with both `#[arg]` and `#[new]` is declared by the
/// first and made by the second; a part with `#[new]` has no arguments.
///
/// ```
/// use thruway_element::{Arguments, Nanos, Ty};
///
/// fn positive(Nanos(time): Nanos) -> Result<i64, String> {
///     if time > 0 { Ok(time) } else { Err("must be more than 0".to_owned()) }
/// }
///
/// #[derive(Arguments)]
/// struct Burster {
///     /// time between bursts
///     #[arg(required, via = positive)]
///     interval: i64,
///     /// packets in a burst
///     #[arg(optional, or = "8", range = 1..=64)]
///     burst: usize,
///     count: u64,
///     #[new(Vec::with_capacity(burst))]
///     waiting: Vec<u64>,
/// }
///
/// let [interval, burst] = Burster::ARGS else { panic!() };
/// assert_eq!((interval.name, interval.ty), ("INTERVAL", Ty::Time));
/// assert_eq!((burst.default, burst.doc), ("8", "packets in a burst"));
/// ```
///
/// [`ArgRule`]: crate::ArgRule
pub trait Arguments: Sized {
    /// The declarations, for the spec.
    const ARGS: &'static [Arg];

    /// Reads the arguments.
    ///
    /// # Errors
    /// All values that are wrong.
    fn from_args(args: &Args<'_>) -> Result<Self, ArgErrors>;
}

/// A struct that has handlers. The derive macro of the same name implements it.
///
/// An attribute `#[handler(ACCESS, ...)]` on a field or on the struct declares one. ACCESS is
/// `read`, `sum`, `write` or `both` (see [`Handler`]). The name is the field's, the text its doc
/// comment; the field is read and written as its argument is. Behind ACCESS may stand:
///
/// | | |
/// |---|---|
/// | `shared`, `lines`, `concat`, `private`, `with_effect` | as in [`Handler`] |
/// | `numbered` | one for each item of a list; its name is that of the first, as `active0` |
/// | `name = "name"`, `"text"`, `doc = TEXT` | another name or text; needed on the struct |
/// | `get = expression` | the value that a read shows |
/// | `read = expression` | the answer to a read: a result with the text |
/// | `run = expression` | the action of a write |
/// | `write = expression` | the same, which may fail: a result |
/// | `then = expression` | an action after the field is written |
/// | `as`, `via`, `range` | how a written value is read, as of arguments |
///
/// `#[handler(like = EXPRESSION, ...)]` refers to a handler that is declared elsewhere. With a
/// name, the struct answers it as the others; without, the last field marked `#[part]` answers it,
/// along with every name that no other part lists.
///
/// On the struct `field = name` declares one of a field, where the order of the manual differs from
/// that of the fields.
///
/// The expressions may use `self`, `cx`, `name`, and `param` (reads) or `value` (writes), and
/// `index` for numbered ones. Handlers on the struct come first, then those of the fields, in their
/// order; a field marked `#[part]` is replaced by its own handlers.
pub trait Handlers {
    /// The declarations for the spec; empty for a hand-written implementation, which declares them
    /// by [`Entry::with_handlers`](crate::Entry::with_handlers).
    const HANDLERS: &'static [Handler] = &[];

    /// Answers handler `name`; `param` is the text after the name (`handler param`), often empty.
    /// An answer that must be waited for is given as [`HandlerError::Later`]: packets move on.
    ///
    /// # Errors
    /// When there is no such read handler or the parameter is wrong.
    fn read_handler(
        &mut self,
        cx: &mut Cx<'_>,
        name: &str,
        param: &str,
    ) -> Result<String, HandlerError> {
        let _ = (cx, param);
        Err(HandlerError::no_read(name))
    }

    /// Writes handler `name`.
    ///
    /// # Errors
    /// When there is no such write handler or the value is wrong.
    fn write_handler(
        &mut self,
        cx: &mut Cx<'_>,
        name: &str,
        value: &str,
    ) -> Result<(), HandlerError> {
        let _ = (cx, value);
        Err(HandlerError::no_write(name))
    }
}

/// A value as it was read that becomes a field of another type as it is.
pub trait IntoField<T> {
    /// The field's value.
    fn into_field(self) -> T;
}

macro_rules! into_field {
    ($($read:ty => $field:ty: $value:ident, $made:expr;)+) => {$(
        impl IntoField<$field> for $read {
            fn into_field(self) -> $field {
                let $value = self;
                $made
            }
        }
    )+};
}

into_field! {
    u8 => u32: n, n.into();
    u8 => usize: n, n.into();
    u16 => u32: n, n.into();
    u16 => usize: n, n.into();
    u32 => u64: n, n.into();
    u32 => usize: n, n as usize;
    i32 => i64: n, n.into();
    Nanos => i64: n, n.0;
    Bandwidth => u64: n, n.0;
    Size => u64: n, n.0;
    UdpPort => u16: n, n.0;
    AnnoArg => Anno: n, n.0;
}

/// The manual's name for the type that a function takes.
pub const fn ty_of<T: FromArg, R>(_: fn(T) -> R) -> Ty {
    T::TY
}

/// The number in the name of a handler that exists once for each of `count` items; `first` is the
/// name of the first.
pub fn numbered(name: &str, first: &str, count: usize) -> Option<usize> {
    let number = name.strip_prefix(first.trim_end_matches('0'))?.parse().ok()?;
    (number < count).then_some(number)
}

/// The value, if it is in the range.
///
/// # Errors
/// An error text that names the range.
pub fn within<T: PartialOrd + Display>(value: T, range: impl RangeBounds<T>) -> Result<T, String> {
    use std::ops::Bound::{Excluded, Included, Unbounded};
    if range.contains(&value) {
        return Ok(value);
    }
    Err(match (range.start_bound(), range.end_bound()) {
        (Included(first), Included(last)) => format!("must be from {first} to {last}"),
        (Included(first), Unbounded) => format!("must be at least {first}"),
        (_, Included(last)) => format!("must be at most {last}"),
        (_, Excluded(end)) => format!("must be below {end}"),
        (_, Unbounded) => "out of range".to_owned(),
    })
}

/// The number of items of all lists.
pub const fn len<T>(lists: &[&[T]]) -> usize {
    let (mut sum, mut at) = (0, 0);
    while at < lists.len() {
        sum += lists[at].len();
        at += 1;
    }
    sum
}

/// The items of all lists, one list after the other. `N` is their number ([`len`]).
pub const fn joined<T: Copy, const N: usize>(lists: &[&[T]]) -> [T; N] {
    let mut first = 0;
    while lists[first].is_empty() {
        first += 1;
    }
    let mut all = [lists[first][0]; N];
    let (mut list, mut count) = (0, 0);
    while list < lists.len() {
        let mut at = 0;
        while at < lists[list].len() {
            all[count] = lists[list][at];
            (at, count) = (at + 1, count + 1);
        }
        list += 1;
    }
    all
}

impl ArgErrors {
    /// The value, or its errors kept here.
    pub fn take<T, E: Into<ArgErrors>>(&mut self, value: Result<T, E>) -> Option<T> {
        match value {
            Ok(value) => Some(value),
            Err(error) => {
                self.0.extend(error.into().0);
                None
            }
        }
    }
}

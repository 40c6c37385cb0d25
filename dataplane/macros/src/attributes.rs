//! The attributes `#[arg(...)]` and `#[handler(...)]`, parsed.

use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{Error, Expr, Ident, LitStr, Path, Result, Token, Type};

/// How the text of a value becomes the value of a field.
#[derive(Clone, Default)]
pub(crate) struct Conversion {
    /// The type that the text is read as, where it is not the field's own.
    pub read_as: Option<Type>,
    /// A function that checks what was read, and makes the field's value of it.
    pub via: Option<Path>,
    /// The values that are accepted.
    pub range: Option<Expr>,
}

impl Conversion {
    /// Whether the value is the field's as it was read.
    pub fn is_plain(&self) -> bool {
        self.read_as.is_none() && self.via.is_none()
    }
}

/// `#[arg(RULE, KEY = VALUE..., "doc")]`.
pub(crate) struct ArgAttribute {
    /// `required`, `optional`, `keyword`, `required_keyword` or `rest`; `like`, of one that is
    /// declared elsewhere.
    pub rule: Ident,
    /// The declaration, of `like`.
    pub like: Option<Expr>,
    pub name: Option<LitStr>,
    /// The text that counts when it is not given.
    pub default: Option<Expr>,
    /// The value that counts when it is not given.
    pub otherwise: Option<Expr>,
    pub ty: Option<Expr>,
    pub conversion: Conversion,
    /// The type of an argument that is checked and not kept.
    pub checked: Option<Type>,
    /// Whether its value does not come from here.
    pub is_unread: bool,
    /// The type of an argument that is not kept: a variable for the values of fields.
    pub value: Option<Type>,
    /// The manual's text.
    pub doc: Option<Expr>,
}

impl ArgAttribute {
    /// Whether it is the argument of the field that it stands at.
    pub fn is_of_field(&self) -> bool {
        self.checked.is_none() && !self.is_unread && self.value.is_none()
    }
}

/// `#[handler(ACCESS, MODIFIER..., KEY = VALUE..., "doc")]`.
pub(crate) struct HandlerAttribute {
    /// `read`, `sum`, `write` or `both`; `like`, of one that is declared elsewhere.
    pub access: Ident,
    /// Functions of the declaration: `shared`, `lines`, `concat`, `private`, `with_effect`.
    pub modifiers: Vec<Ident>,
    /// Whether there is one for each item of the field.
    pub is_numbered: bool,
    /// The declaration, of `like`.
    pub like: Option<Expr>,
    pub name: Option<LitStr>,
    /// The field that it is about, where it does not stand at it.
    pub field: Option<Ident>,
    /// What is shown when it is read.
    pub get: Option<Expr>,
    /// The answer when it is read.
    pub read: Option<Expr>,
    /// What a write does; a result.
    pub write: Option<Expr>,
    /// What a write does that cannot fail.
    pub run: Option<Expr>,
    /// What follows once the field has its new value.
    pub then: Option<Expr>,
    pub conversion: Conversion,
    /// The manual's text.
    pub doc: Option<Expr>,
}

/// One item between the commas of an attribute.
enum Item {
    Doc(Box<Expr>),
    Word(Ident),
    Value(Ident, Value),
}

/// What stands behind `KEY =`.
enum Value {
    Type(Box<Type>),
    Field(Ident),
    Path(Path),
    Text(LitStr),
    Expr(Box<Expr>),
}

impl Value {
    fn expr(self) -> Option<Expr> {
        match self {
            Value::Expr(expr) => Some(*expr),
            _ => None,
        }
    }
}

impl Parse for Item {
    fn parse(input: ParseStream<'_>) -> Result<Item> {
        if input.peek(LitStr) {
            return Ok(Item::Doc(Box::new(input.parse()?)));
        }
        let key = input.call(Ident::parse_any)?;
        if input.parse::<Option<Token![=]>>()?.is_none() {
            return Ok(Item::Word(key));
        }
        let value = match key.to_string().as_str() {
            "as" | "checked" | "value" => Value::Type(Box::new(input.parse()?)),
            "via" => Value::Path(input.parse()?),
            "field" => Value::Field(input.parse()?),
            "name" => Value::Text(input.parse()?),
            _ => Value::Expr(input.parse()?),
        };
        Ok(Item::Value(key, value))
    }
}

/// The items of an attribute; the first has to be one of `first`.
fn items(input: ParseStream<'_>, first: &[&str]) -> Result<(Ident, Vec<Item>)> {
    let word = input.call(Ident::parse_any)?;
    if !first.contains(&word.to_string().as_str()) {
        return Err(Error::new(word.span(), format!("write one of {}", first.join(", "))));
    }
    let mut first = None;
    if word == "like" {
        input.parse::<Token![=]>()?;
        let key = Ident::new("declared", word.span());
        first = Some(Item::Value(key, Value::Expr(input.parse()?)));
    }
    if input.parse::<Option<Token![,]>>()?.is_none() && !input.is_empty() {
        return Err(input.error("write a comma"));
    }
    let items = Punctuated::<Item, Token![,]>::parse_terminated(input)?;
    Ok((word, first.into_iter().chain(items).collect()))
}

/// The error about a key or word that an attribute does not have.
fn unknown<T>(key: &Ident, known: &str) -> Result<T> {
    Err(Error::new(key.span(), format!("unknown; write one of {known}")))
}

impl Conversion {
    /// Takes what belongs to a conversion; gives the rest back.
    fn take(&mut self, key: &Ident, value: Value) -> Option<Value> {
        match (key.to_string().as_str(), value) {
            ("as", Value::Type(ty)) => self.read_as = Some(*ty),
            ("via", Value::Path(path)) => self.via = Some(path),
            ("range", Value::Expr(range)) => self.range = Some(*range),
            (_, other) => return Some(other),
        }
        None
    }
}

impl Parse for ArgAttribute {
    fn parse(input: ParseStream<'_>) -> Result<ArgAttribute> {
        let rules = ["required", "optional", "keyword", "required_keyword", "rest", "like"];
        let (rule, items) = items(input, &rules)?;
        let mut arg = ArgAttribute {
            rule,
            like: None,
            name: None,
            default: None,
            otherwise: None,
            ty: None,
            conversion: Conversion::default(),
            checked: None,
            is_unread: false,
            value: None,
            doc: None,
        };
        for item in items {
            match item {
                Item::Doc(doc) => arg.doc = Some(*doc),
                Item::Word(word) if word == "unread" => arg.is_unread = true,
                Item::Word(word) => return unknown(&word, ARG_KEYS),
                Item::Value(key, value) => {
                    let Some(value) = arg.conversion.take(&key, value) else { continue };
                    match (key.to_string().as_str(), value) {
                        ("name", Value::Text(name)) => arg.name = Some(name),
                        ("checked", Value::Type(ty)) => arg.checked = Some(*ty),
                        ("value", Value::Type(ty)) => arg.value = Some(*ty),
                        ("doc", value) => arg.doc = value.expr(),
                        ("declared", value) => arg.like = value.expr(),
                        ("or", value) => arg.default = value.expr(),
                        ("else", value) => arg.otherwise = value.expr(),
                        ("ty", value) => arg.ty = value.expr(),
                        _ => return unknown(&key, ARG_KEYS),
                    }
                }
            }
        }
        Ok(arg)
    }
}

const ARG_KEYS: &str =
    "unread, or name, doc, as, via, range, or, else, ty, checked, value with a value";

impl Parse for HandlerAttribute {
    fn parse(input: ParseStream<'_>) -> Result<HandlerAttribute> {
        let (access, items) = items(input, &["read", "sum", "write", "both", "like"])?;
        let mut handler = HandlerAttribute {
            access,
            modifiers: Vec::new(),
            is_numbered: false,
            like: None,
            name: None,
            field: None,
            get: None,
            read: None,
            write: None,
            run: None,
            then: None,
            conversion: Conversion::default(),
            doc: None,
        };
        for item in items {
            match item {
                Item::Doc(doc) => handler.doc = Some(*doc),
                Item::Word(word) => match word.to_string().as_str() {
                    "shared" | "lines" | "concat" | "private" | "with_effect" => {
                        handler.modifiers.push(word)
                    }
                    "numbered" => handler.is_numbered = true,
                    _ => return unknown(&word, HANDLER_KEYS),
                },
                Item::Value(key, value) => {
                    let Some(value) = handler.conversion.take(&key, value) else { continue };
                    match (key.to_string().as_str(), value) {
                        ("name", Value::Text(name)) => handler.name = Some(name),
                        ("field", Value::Field(field)) => handler.field = Some(field),
                        ("declared", value) => handler.like = value.expr(),
                        ("doc", value) => handler.doc = value.expr(),
                        ("get", value) => handler.get = value.expr(),
                        ("read", value) => handler.read = value.expr(),
                        ("write", value) => handler.write = value.expr(),
                        ("run", value) => handler.run = value.expr(),
                        ("then", value) => handler.then = value.expr(),
                        _ => return unknown(&key, HANDLER_KEYS),
                    }
                }
            }
        }
        Ok(handler)
    }
}

const HANDLER_KEYS: &str = "shared, lines, concat, private, with_effect, numbered, or name, doc, field, get, \
                            read, write, run, then, as, via, range with a value";

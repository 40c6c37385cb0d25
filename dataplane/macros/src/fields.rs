//! The struct that a macro is derived for: its fields, and what stands in their attributes.

use proc_macro2::TokenStream;
use quote::quote;
use syn::parse::Parse;
use syn::{
    Attribute, Data, DeriveInput, Error, Expr, ExprLit, Field, Fields, GenericArgument, Lit,
    LitStr, Meta, PathArguments, Result, Type,
};

use crate::attributes::Conversion;

/// Declarations, one after the other: those of this struct, and lists of its parts.
#[derive(Default)]
pub(crate) struct Lists {
    lists: Vec<TokenStream>,
    own: Vec<TokenStream>,
}

impl Lists {
    /// One more declaration.
    pub fn push(&mut self, one: TokenStream) {
        self.own.push(one);
    }

    /// Those of a part.
    pub fn extend(&mut self, list: &TokenStream) {
        self.close();
        self.lists.push(list.clone());
    }

    fn close(&mut self) {
        let own = std::mem::take(&mut self.own);
        if !own.is_empty() {
            self.lists.push(quote!(&[#(#own),*]));
        }
    }

    /// All in one slice of this type.
    pub fn joined(mut self, ty: &TokenStream) -> TokenStream {
        self.close();
        match &self.lists[..] {
            [] => quote!(&[]),
            [one] => quote!(#one),
            all => quote!({
                const LISTS: &[&[#ty]] = &[#(#all),*];
                &::thruway_element::declared::joined::<#ty, {
                    ::thruway_element::declared::len(LISTS)
                }>(LISTS)
            }),
        }
    }
}

/// The named fields of a struct; none of one without fields.
pub(crate) fn named(input: &DeriveInput) -> Result<Vec<&Field>> {
    match &input.data {
        Data::Struct(data) => match &data.fields {
            Fields::Named(fields) => Ok(fields.named.iter().collect()),
            Fields::Unit => Ok(Vec::new()),
            Fields::Unnamed(_) => Err(Error::new_spanned(&input.ident, "give the fields names")),
        },
        _ => Err(Error::new_spanned(&input.ident, "only a struct can be derived for")),
    }
}

/// What stands in the attributes of this name.
pub(crate) fn all<T: Parse>(attributes: &[Attribute], name: &str) -> Result<Vec<T>> {
    let named = attributes.iter().filter(|attribute| attribute.path().is_ident(name));
    named.map(Attribute::parse_args).collect()
}

/// Whether there is an attribute of this name.
pub(crate) fn has(field: &Field, name: &str) -> bool {
    field.attrs.iter().any(|attribute| attribute.path().is_ident(name))
}

/// The doc comment, its lines in one.
pub(crate) fn doc(attributes: &[Attribute]) -> String {
    let line = |attribute: &Attribute| match &attribute.meta {
        Meta::NameValue(meta) if meta.path.is_ident("doc") => match &meta.value {
            Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => Some(text.value().trim().to_owned()),
            _ => None,
        },
        _ => None,
    };
    attributes.iter().filter_map(line).collect::<Vec<_>>().join(" ")
}

/// The text of a declaration: what its attribute says, or else the field's doc comment.
pub(crate) fn text(
    own: Option<&Expr>,
    attributes: &[Attribute],
    name: &LitStr,
) -> Result<TokenStream> {
    let text = doc(attributes);
    match own {
        Some(own) => Ok(quote!(#own)),
        None if text.is_empty() => {
            let message = "it needs a text for the manual: a doc comment";
            Err(Error::new(name.span(), message))
        }
        None => Ok(quote!(#text)),
    }
}

/// `T` of a type `Option<T>`.
pub(crate) fn optional(ty: &Type) -> Option<&Type> {
    let Type::Path(path) = ty else { return None };
    let last = path.path.segments.last().filter(|last| last.ident == "Option")?;
    let PathArguments::AngleBracketed(inner) = &last.arguments else { return None };
    match inner.args.first() {
        Some(GenericArgument::Type(ty)) => Some(ty),
        _ => None,
    }
}

/// The type that a text is read as, in `::<...>`; inferred where a function takes it.
pub(crate) fn turbofish(conversion: &Conversion, field: Option<&Type>) -> TokenStream {
    match (&conversion.read_as, &conversion.via) {
        (Some(ty), _) => quote!(::<#ty>),
        (None, Some(_)) => quote!(),
        (None, None) => field.map_or(quote!(), |ty| quote!(::<#ty>)),
    }
}

/// From `value` as it was read to a result with the field's value; the error is a text.
pub(crate) fn convert(conversion: &Conversion) -> TokenStream {
    let range = conversion
        .range
        .as_ref()
        .map(|range| quote!(let value = ::thruway_element::declared::within(value, #range)?;));
    let value = match (&conversion.via, &conversion.read_as) {
        (Some(via), _) => quote!(#via(value).map_err(|why| why.to_string())?),
        (None, Some(_)) => quote!(::thruway_element::declared::IntoField::into_field(value)),
        (None, None) => quote!(value),
    };
    quote!({ #range #value })
}

#[cfg(test)]
mod tests {
    use super::*;
    use quote::ToTokens as _;
    use syn::parse_quote;

    #[test]
    fn docs_are_one_line_and_options_have_insides() {
        let field: Field = parse_quote! {
            /// packets in it
            ///  now
            length: Option<u32>
        };
        assert_eq!(doc(&field.attrs), "packets in it now");
        let inner = |ty| optional(&ty).map(|inner| inner.to_token_stream().to_string());
        assert_eq!(inner(field.ty.clone()).as_deref(), Some("u32"));
        assert_eq!(inner(parse_quote!(Vec<u32>)), None);
        assert!(text(None, &[], &parse_quote!("x")).is_err());
        assert_eq!(
            text(None, &field.attrs, &parse_quote!("x")).unwrap().to_string(),
            "\"packets in it now\""
        );
    }
}

//! `#[derive(Arguments)]`.

use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens as _, quote};
use syn::{DeriveInput, Error, Expr, Field, LitStr, Result, Type};

use crate::attributes::ArgAttribute;
use crate::fields;

/// What becomes of the fields, as code.
#[derive(Default)]
struct Code {
    /// Declarations, one after the other.
    list: fields::Lists,
    /// Reads values; what is wrong is collected.
    read: Vec<TokenStream>,
    /// Fields whose values were read.
    kept: Vec<Ident>,
    /// Makes the values of the other fields.
    made: Vec<TokenStream>,
}

pub(crate) fn derive(input: &DeriveInput) -> Result<TokenStream> {
    let fields = fields::named(input)?;
    let mut code = Code::default();
    for arg in fields::all::<ArgAttribute>(&input.attrs, "arg")? {
        code.without_field(&arg)?;
    }
    for field in &fields {
        code.field(field)?;
    }
    let name = &input.ident;
    let (generics, types, conditions) = input.generics.split_for_impl();
    let Code { list, read, kept, made } = code;
    let all = fields.iter().map(|field| &field.ident);
    let list = list.joined(&quote!(::thruway_element::Arg));
    Ok(quote! {
        #[automatically_derived]
        impl #generics ::thruway_element::Arguments for #name #types #conditions {
            const ARGS: &'static [::thruway_element::Arg] = #list;

            #[allow(unused_mut, unused_parens, unused_variables)]
            fn from_args(
                args: &::thruway_element::Args<'_>,
            ) -> ::std::result::Result<Self, ::thruway_element::ArgErrors> {
                let mut wrong = ::thruway_element::ArgErrors::default();
                #(#read)*
                let (#(::std::option::Option::Some(#kept),)* true) =
                    (#(#kept,)* wrong.0.is_empty())
                else {
                    return ::std::result::Result::Err(wrong);
                };
                #(#made)*
                ::std::result::Result::Ok(Self { #(#all),* })
            }
        }
    })
}

impl Code {
    /// A field: an argument, a part with arguments of its own, or something else.
    fn field(&mut self, field: &Field) -> Result<()> {
        let (Some(name), ty) = (&field.ident, &field.ty) else { return Ok(()) };
        let made = fields::all::<Expr>(&field.attrs, "new")?.pop();
        let mut has_own = false;
        for arg in fields::all::<ArgAttribute>(&field.attrs, "arg")? {
            if !arg.is_of_field() {
                self.without_field(&arg)?;
                continue;
            }
            if has_own {
                return Err(Error::new_spanned(field, "a field keeps one argument"));
            }
            has_own = true;
            self.declare(&arg, field, ty)?;
            if made.is_none() {
                let text_name = match &arg.like {
                    Some(like) => quote!((#like).name),
                    None => text_name(&arg, field).into_token_stream(),
                };
                self.keep(name, value(&arg, &text_name, ty));
            }
        }
        if let Some(value) = made {
            self.made.push(quote!(let #name: #ty = #value;));
        } else if !has_own && fields::has(field, "part") {
            self.list.extend(&quote!(<#ty as ::thruway_element::Arguments>::ARGS));
            self.keep(name, quote!(<#ty as ::thruway_element::Arguments>::from_args(args)));
        } else if !has_own {
            self.made.push(quote!(let #name: #ty = Default::default();));
        }
        Ok(())
    }

    fn keep(&mut self, name: &Ident, value: TokenStream) {
        self.kept.push(name.clone());
        self.read.push(quote!(let #name = wrong.take(#value);));
    }

    /// An argument that no field keeps.
    fn without_field(&mut self, arg: &ArgAttribute) -> Result<()> {
        let ty = arg.value.as_ref().or(arg.checked.as_ref());
        let text_name = match (&arg.like, &arg.name) {
            (Some(like), _) => {
                self.list.push(quote!(#like));
                quote!((#like).name)
            }
            (None, Some(name)) => {
                let doc = fields::text(arg.doc.as_ref(), &[], name)?;
                let ty = match (ty, &arg.ty) {
                    (Some(ty), _) => type_of(arg, ty),
                    (None, Some(ty)) => quote!(#ty),
                    (None, None) => return Err(Error::new_spanned(name, "give its type: ty =")),
                };
                self.push(arg, name, &doc, &ty);
                quote!(#name)
            }
            (None, None) => {
                return Err(Error::new_spanned(&arg.rule, "give a name: no field has it"));
            }
        };
        match (&arg.value, &arg.checked, &arg.name) {
            (Some(ty), _, Some(name)) => {
                let variable = Ident::new(&name.value().to_lowercase(), name.span());
                self.keep(&variable, value(arg, &text_name, ty));
            }
            (Some(_), _, None) => {
                return Err(Error::new_spanned(&arg.rule, "give the variable's name"));
            }
            (None, Some(ty), _) => {
                self.read.push(quote!(let _ = wrong.take(args.opt::<#ty>(#text_name));));
            }
            (None, None, _) => {}
        }
        Ok(())
    }

    fn declare(&mut self, arg: &ArgAttribute, field: &Field, ty: &Type) -> Result<()> {
        if let Some(like) = &arg.like {
            self.list.push(quote!(#like));
            return Ok(());
        }
        let name = text_name(arg, field);
        let doc = fields::text(arg.doc.as_ref(), &field.attrs, &name)?;
        self.push(arg, &name, &doc, &type_of(arg, ty));
        Ok(())
    }

    fn push(&mut self, arg: &ArgAttribute, name: &LitStr, doc: &TokenStream, ty: &TokenStream) {
        let (rule, default) = (&arg.rule, arg.default.iter());
        let made = quote!(::thruway_element::Arg::#rule(#name, #ty, #doc) #(.or(#default))*);
        self.list.push(made);
    }
}

/// The name in the manual of the type of an argument whose value has this type.
fn type_of(arg: &ArgAttribute, ty: &Type) -> TokenStream {
    let read_as = fields::optional(ty).unwrap_or(ty);
    match (&arg.ty, &arg.conversion.read_as, &arg.conversion.via) {
        (Some(ty), _, _) => quote!(#ty),
        (None, Some(ty), _) => quote!(<#ty as ::thruway_element::FromArg>::TY),
        (None, None, Some(via)) => quote!(::thruway_element::declared::ty_of(#via as fn(_) -> _)),
        (None, None, None) => quote!(<#read_as as ::thruway_element::FromArg>::TY),
    }
}

/// The argument's name: that of the field in capitals, if it has no other.
fn text_name(arg: &ArgAttribute, field: &Field) -> LitStr {
    let of_field = || {
        let name = field.ident.as_ref().map_or_else(String::new, ToString::to_string);
        LitStr::new(&name.to_uppercase(), arg.rule.span())
    };
    arg.name.clone().unwrap_or_else(of_field)
}

/// Reads the value of an argument: a result.
fn value(arg: &ArgAttribute, name: &TokenStream, ty: &Type) -> TokenStream {
    // What has a default is always there.
    let inner = fields::optional(ty).filter(|_| arg.default.is_none());
    let turbofish = fields::turbofish(&arg.conversion, Some(inner.unwrap_or(ty)));
    let convert = fields::convert(&arg.conversion);
    let (read, converted) = match (&arg.otherwise, inner) {
        (Some(otherwise), _) => {
            let read = quote!(args.opt #turbofish(#name));
            (read, quote!(match value { Some(value) => #convert, None => #otherwise }))
        }
        (None, Some(_)) => {
            let read = quote!(args.opt #turbofish(#name));
            (read, quote!(match value { Some(value) => Some(#convert), None => None }))
        }
        (None, None) => (quote!(args.get #turbofish(#name)), convert),
    };
    if arg.conversion.is_plain() && arg.conversion.range.is_none() && arg.otherwise.is_none() {
        return read;
    }
    quote!(#read.and_then(|value| {
        let made = || -> ::std::result::Result<#ty, ::std::string::String> { Ok(#converted) };
        made().map_err(|why| args.error(#name, why))
    }))
}

//! `#[derive(Handlers)]`.

use proc_macro2::{Ident, TokenStream};
use quote::quote;
use syn::{DeriveInput, Error, Expr, Field, LitStr, Result};

use crate::attributes::{ArgAttribute, Conversion, HandlerAttribute};
use crate::fields;

/// What becomes of the declarations, as code.
#[derive(Default)]
struct Code {
    /// Declarations, one after the other.
    list: fields::Lists,
    /// Arms that answer reads, and those that do what is written.
    reads: Vec<TokenStream>,
    writes: Vec<TokenStream>,
    /// Fields with handlers of their own, and the list of these.
    parts: Vec<(Ident, TokenStream)>,
}

pub(crate) fn derive(input: &DeriveInput) -> Result<TokenStream> {
    let mut code = Code::default();
    let fields = fields::named(input)?;
    for handler in fields::all::<HandlerAttribute>(&input.attrs, "handler")? {
        let field = match &handler.field {
            Some(name) => Some(find(&fields, name)?),
            None => None,
        };
        code.push(&handler, field)?;
    }
    for field in fields {
        for handler in fields::all::<HandlerAttribute>(&field.attrs, "handler")? {
            code.push(&handler, Some(field))?;
        }
        if fields::has(field, "part") {
            code.part(field);
        }
    }
    let name = &input.ident;
    let (generics, types, conditions) = input.generics.split_for_impl();
    let Code { list, reads, writes, parts } = code;
    let read_parts = asked(
        &parts,
        |part| quote!(::thruway_element::Handlers::read_handler(&mut self.#part, cx, name, param)),
        quote!(Err(::thruway_element::HandlerError::no_read(name))),
    );
    let write_parts = asked(
        &parts,
        |part| quote!(::thruway_element::Handlers::write_handler(&mut self.#part, cx, name, value)),
        quote!(Err(::thruway_element::HandlerError::no_write(name))),
    );
    let list = list.joined(&quote!(::thruway_element::Handler));
    Ok(quote! {
        #[automatically_derived]
        impl #generics ::thruway_element::Handlers for #name #types #conditions {
            const HANDLERS: &'static [::thruway_element::Handler] = #list;

            #[allow(unused_variables)]
            fn read_handler(
                &mut self,
                cx: &mut ::thruway_element::Cx<'_>,
                name: &str,
                param: &str,
            ) -> ::std::result::Result<::std::string::String, ::thruway_element::HandlerError>
            {
                match name {
                    #(#reads)*
                    #read_parts
                }
            }

            #[allow(unused_variables)]
            fn write_handler(
                &mut self,
                cx: &mut ::thruway_element::Cx<'_>,
                name: &str,
                value: &str,
            ) -> ::std::result::Result<(), ::thruway_element::HandlerError> {
                match name {
                    #(#writes)*
                    #write_parts
                }
            }
        }
    })
}

/// The field of this name.
fn find<'a>(fields: &[&'a Field], name: &Ident) -> Result<&'a Field> {
    let found = fields.iter().find(|field| field.ident.as_ref() == Some(name));
    found.copied().ok_or_else(|| Error::new(name.span(), "no such field"))
}

impl Code {
    fn push(&mut self, handler: &HandlerAttribute, field: Option<&Field>) -> Result<()> {
        if let Some(like) = &handler.like {
            self.list.push(quote!(#like));
            let Some(name) = &handler.name else { return Ok(()) };
            if handler.get.is_some() || handler.read.is_some() {
                let answer = read(handler, None)?;
                self.reads.push(quote!(#name => #answer,));
            }
            if handler.run.is_some() || handler.write.is_some() {
                let done = write(handler, None)?;
                self.writes.push(quote!(#name => #done,));
            }
            return Ok(());
        }
        let name = match (&handler.name, field.and_then(|field| field.ident.as_ref())) {
            (Some(name), _) => name.clone(),
            (None, Some(field)) => LitStr::new(&field.to_string(), field.span()),
            (None, None) => {
                return Err(Error::new_spanned(&handler.access, "without a field: give a name"));
            }
        };
        let attributes = field.map_or(&[][..], |field| &field.attrs);
        let doc = fields::text(handler.doc.as_ref(), attributes, &name)?;
        let (access, modifiers) = (&handler.access, &handler.modifiers);
        self.list.push(quote! {
            ::thruway_element::Handler::#access(#name, #doc) #(.#modifiers())*
        });
        let pattern = match field.and_then(|field| field.ident.as_ref()) {
            Some(field) if handler.is_numbered => quote! {
                _ if let Some(index) =
                    ::thruway_element::declared::numbered(name, #name, self.#field.len())
            },
            _ => quote!(#name),
        };
        if handler.access != "write" {
            let answer = read(handler, field)?;
            self.reads.push(quote!(#pattern => #answer,));
        }
        if handler.access == "write" || handler.access == "both" {
            let done = write(handler, field)?;
            self.writes.push(quote!(#pattern => #done,));
        }
        Ok(())
    }

    fn part(&mut self, field: &Field) {
        let ty = &field.ty;
        let list = quote!(<#ty as ::thruway_element::Handlers>::HANDLERS);
        self.list.extend(&list);
        self.parts.extend(field.ident.clone().map(|name| (name, list)));
    }
}

/// The arms for what is no handler of the struct itself: `ask` calls a part. The last part is asked
/// for all that the others do not list; where there is none, `unknown` is the answer.
fn asked(
    parts: &[(Ident, TokenStream)],
    ask: impl Fn(&Ident) -> TokenStream,
    unknown: TokenStream,
) -> TokenStream {
    let Some(((last, _), others)) = parts.split_last() else { return quote!(_ => #unknown,) };
    let arms = others.iter().map(|(part, list)| {
        let call = ask(part);
        quote!(_ if #list.iter().any(|handler| handler.name == name) => #call,)
    });
    let call = ask(last);
    quote!(#(#arms)* _ => #call,)
}

/// What a read answers: a result.
fn read(handler: &HandlerAttribute, field: Option<&Field>) -> Result<TokenStream> {
    let shown = |what: TokenStream| quote!(Ok(::std::string::ToString::to_string(&#what)));
    match (&handler.read, &handler.get, field) {
        (Some(read), _, _) => Ok(quote!(#read)),
        (None, Some(get), _) => Ok(shown(quote!((#get)))),
        (None, None, Some(Field { ident, .. })) if handler.is_numbered => {
            Ok(shown(quote!(self.#ident[index])))
        }
        (None, None, Some(Field { ident, .. })) => Ok(shown(quote!(self.#ident))),
        (None, None, None) => {
            Err(Error::new_spanned(&handler.access, "say what it answers: get = or read ="))
        }
    }
}

/// What a write does: a result.
fn write(handler: &HandlerAttribute, field: Option<&Field>) -> Result<TokenStream> {
    let then: Vec<&Expr> = handler.then.iter().collect();
    match (&handler.write, &handler.run, field) {
        (Some(write), _, _) => Ok(quote!(#write)),
        (None, Some(run), _) => Ok(quote!({ #run; #(#then;)* Ok(()) })),
        (None, None, Some(Field { ident, .. })) if handler.is_numbered => Ok(quote!({
            self.#ident[index] = ::thruway_element::handler_value(name, value)?;
            #(#then;)*
            Ok(())
        })),
        (None, None, Some(field)) => {
            let conversion = conversion(handler, field)?;
            let ident = &field.ident;
            let turbofish = fields::turbofish(&conversion, Some(&field.ty));
            let convert = fields::convert(&conversion);
            let value = quote!(::thruway_element::handler_value #turbofish(name, value)?);
            if conversion.is_plain() && conversion.range.is_none() {
                return Ok(quote!({ self.#ident = #value; #(#then;)* Ok(()) }));
            }
            let ty = &field.ty;
            Ok(quote!({
                let value = #value;
                let made = || -> ::std::result::Result<#ty, ::std::string::String> { Ok(#convert) };
                self.#ident = made().map_err(|why| {
                    ::thruway_element::HandlerError::refused(::std::format!("{name}: {why}"))
                })?;
                #(#then;)*
                Ok(())
            }))
        }
        (None, None, None) => {
            Err(Error::new_spanned(&handler.access, "say what it does: write = or run ="))
        }
    }
}

/// How a written value becomes the field's: as its argument does, where nothing else is said.
fn conversion(handler: &HandlerAttribute, field: &Field) -> Result<Conversion> {
    if !handler.conversion.is_plain() {
        return Ok(handler.conversion.clone());
    }
    let args = fields::all::<ArgAttribute>(&field.attrs, "arg")?;
    let own = args.into_iter().find(ArgAttribute::is_of_field);
    let mut conversion = own.map_or_else(Conversion::default, |arg| arg.conversion);
    conversion.range = handler.conversion.range.clone();
    Ok(conversion)
}

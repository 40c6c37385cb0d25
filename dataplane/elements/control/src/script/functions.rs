//! The functions of Script that depend on nothing but their arguments: arithmetic, comparison,
//! truth, words and bytes.

use std::cmp::Ordering;

use thruway_element::{handler_value, text};

use super::format::sprintf;
use super::integer::integer;
use thruway_elements_support::call::first_word;
use thruway_elements_support::text::general;

/// Digits of real numbers, as in Click.
const DIGITS: usize = 12;

/// A number as a script writes it.
#[derive(Debug, Clone, Copy)]
enum Number {
    Int(i64),
    Real(f64),
}

impl Number {
    fn parse(text: &str) -> Option<Number> {
        let int = || integer(text).map(Number::Int);
        int().or_else(|| handler_value("", text).ok().map(Number::Real))
    }

    fn real(self) -> f64 {
        match self {
            Number::Int(value) => value as f64,
            Number::Real(value) => value,
        }
    }
}

impl std::fmt::Display for Number {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Number::Int(value) => write!(f, "{value}"),
            Number::Real(value) => f.write_str(&general(*value, DIGITS)),
        }
    }
}

/// Names of the functions here.
pub(super) const NAMES: &[&str] = &[
    "abs", "add", "and", "avg", "ceil", "count", "div", "eq", "first", "floor", "ge", "gt",
    "gt_vec", "htonl", "htons", "idiv", "if", "in", "le", "length", "lt", "max", "min", "mod",
    "mul", "nand", "ne", "neg", "nor", "not", "ntohl", "ntohs", "or", "popcount", "rem", "round",
    "sprintf", "sub", "unquote",
];

/// Calls a function; `None` if there is none of that name.
pub(super) fn call(name: &str, param: &str) -> Option<Result<String, String>> {
    if !NAMES.contains(&name) {
        return None;
    }
    Some(match name {
        "mod" | "rem" => remainder(name, param),
        "neg" | "abs" | "ceil" | "floor" | "round" => one_number(name, param),
        "eq" | "ne" | "lt" | "gt" | "le" | "ge" => compare(name, param),
        "not" => boolean(param).map(|value| (!value).to_string()),
        "and" | "or" | "nand" | "nor" => logic(name, param),
        "if" => choose(param),
        "in" => Ok(is_in(param).to_string()),
        "sprintf" => sprintf(param),
        "first" => Ok(first_word(param).0.to_owned()),
        "length" => Ok(param.len().to_string()),
        "unquote" => Ok(text::unquote_text(param)),
        "htons" | "ntohs" => swap(param, |value| i64::from((value as u16).to_be())),
        "htonl" | "ntohl" => swap(param, |value| i64::from((value as u32).to_be())),
        _ => list(name, param),
    })
}

fn boolean(text: &str) -> Result<bool, String> {
    handler_value("", text).map_err(|_| format!("'{text}' is not a bool; write true or false"))
}

fn swap(param: &str, swap: impl Fn(i64) -> i64) -> Result<String, String> {
    integer(param).map(|value| swap(value).to_string()).ok_or("expected one number".into())
}

/// Functions of a list of numbers.
fn list(name: &str, param: &str) -> Result<String, String> {
    let numbers: Option<Vec<Number>> =
        text::split_words(param).into_iter().map(Number::parse).collect();
    let numbers = numbers.ok_or("expected list of numbers")?;
    let ints: Option<Vec<i64>> = numbers
        .iter()
        .map(|number| if let Number::Int(value) = number { Some(*value) } else { None })
        .collect();
    let reals: Vec<f64> = numbers.iter().map(|number| number.real()).collect();
    let number = match (name, ints) {
        ("count", _) => Number::Int(reals.len() as i64),
        ("popcount", _) => Number::Int(reals.iter().filter(|value| **value != 0.0).count() as i64),
        ("gt_vec", _) => {
            let over = |(first, rest): (&f64, &[f64])| rest.iter().filter(|v| *v > first).count();
            Number::Int(reals.split_first().map_or(0, over) as i64)
        }
        ("div", _) => Number::Real(reals.into_iter().reduce(|a, b| a / b).unwrap_or(1.0)),
        ("idiv", _) => Number::Int(reals.into_iter().reduce(|a, b| a / b).unwrap_or(1.0) as i64),
        (_, Some(ints)) => Number::Int(fold_ints(name, &ints)),
        (_, None) => Number::Real(fold_reals(name, &reals)),
    };
    Ok(number.to_string())
}

fn fold_ints(name: &str, ints: &[i64]) -> i64 {
    let ints_ = ints.iter().copied();
    match name {
        "add" => ints_.fold(0, i64::wrapping_add),
        "sub" => ints_.reduce(i64::wrapping_sub).unwrap_or(0),
        "mul" => ints_.fold(1, i64::wrapping_mul),
        "min" => ints_.min().unwrap_or(1),
        "max" => ints_.max().unwrap_or(1),
        _ => match ints.len() as i64 {
            0 => i64::from(i32::MAX),
            len => ints_.fold(0, i64::wrapping_add) / len,
        },
    }
}

fn fold_reals(name: &str, reals: &[f64]) -> f64 {
    let reals_ = reals.iter().copied();
    match name {
        "add" => reals_.sum(),
        "sub" => reals_.reduce(|a, b| a - b).unwrap_or(0.0),
        "mul" => reals_.product(),
        "min" => reals_.reduce(f64::min).unwrap_or(1.0),
        "max" => reals_.reduce(f64::max).unwrap_or(1.0),
        _ => reals_.sum::<f64>() / reals.len() as f64,
    }
}

fn remainder(name: &str, param: &str) -> Result<String, String> {
    let [a, b] = text::split_words(param)[..] else { return Err("expected two numbers".into()) };
    match (Number::parse(a), Number::parse(b)) {
        (Some(Number::Int(_)), Some(Number::Int(0))) => Err("division by zero".into()),
        (Some(Number::Int(a)), Some(Number::Int(b))) => Ok(a.wrapping_rem(b).to_string()),
        (Some(a), Some(b)) if name == "rem" => Ok(Number::Real(a.real() % b.real()).to_string()),
        _ => Err("expected two numbers".into()),
    }
}

fn one_number(name: &str, param: &str) -> Result<String, String> {
    let number = Number::parse(param).ok_or("expected one number")?;
    Ok(match (name, number) {
        ("neg", Number::Int(value)) => Number::Int(value.wrapping_neg()),
        ("abs", Number::Int(value)) => Number::Int(value.wrapping_abs()),
        (_, Number::Int(value)) => Number::Int(value),
        ("neg", Number::Real(value)) => Number::Real(-value),
        ("abs", Number::Real(value)) => Number::Real(value.abs()),
        ("floor", Number::Real(value)) => Number::Real(value.floor()),
        ("round", Number::Real(value)) => Number::Real(value.round()),
        (_, Number::Real(value)) => Number::Real(value.ceil()),
    }
    .to_string())
}

fn compare(name: &str, param: &str) -> Result<String, String> {
    let [a, b] = text::split_words(param)[..] else { return Err("expected two numbers".into()) };
    let ordering = match (Number::parse(a), Number::parse(b)) {
        (Some(Number::Int(a)), Some(Number::Int(b))) => Some(a.cmp(&b)),
        (Some(a), Some(b)) => a.real().partial_cmp(&b.real()),
        _ => Some(text::unquote(a).cmp(&text::unquote(b))),
    };
    let holds = match name {
        "eq" => ordering == Some(Ordering::Equal),
        "ne" => ordering != Some(Ordering::Equal),
        "lt" => ordering == Some(Ordering::Less),
        "gt" => ordering == Some(Ordering::Greater),
        "le" => ordering.is_some_and(Ordering::is_le),
        _ => ordering.is_some_and(Ordering::is_ge),
    };
    Ok(holds.to_string())
}

fn logic(name: &str, param: &str) -> Result<String, String> {
    let values: Result<Vec<bool>, String> =
        text::split_words(param).into_iter().map(boolean).collect();
    let values = values?;
    let (all, any) = (values.iter().all(|value| *value), values.iter().any(|value| *value));
    let holds = match name {
        "and" => all,
        "nand" => !all,
        "or" => any,
        _ => !any,
    };
    Ok(holds.to_string())
}

fn choose(param: &str) -> Result<String, String> {
    let words = text::split_words(param);
    let condition = boolean(words.first().copied().unwrap_or(""))?;
    let chosen = words.get(if condition { 1 } else { 2 });
    Ok(chosen.map_or(String::new(), |word| (*word).to_owned()))
}

fn is_in(param: &str) -> bool {
    let words = text::split_words(param);
    let Some((wanted, among)) = words.split_first() else { return false };
    among.iter().any(|word| text::unquote(word) == text::unquote(wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn eval(text: &str) -> String {
        let (name, param) = first_word(text);
        call(name, param).unwrap().unwrap_or_else(|error| format!("!{error}"))
    }

    #[test]
    fn arithmetic() {
        for (text, value) in [
            ("add 10 5 2", "17"),
            ("add", "0"),
            ("add 1 0.5", "1.5"),
            ("sub 10 5 2", "3"),
            ("mul 1 2 3", "6"),
            ("div 75 2.5 5", "6"),
            ("div 1 3", "0.333333333333"),
            ("div 1 0", "inf"),
            ("idiv 60 2 5", "6"),
            ("idiv 7 2", "3"),
            ("mod 7 3", "1"),
            ("mod 7 0", "!division by zero"),
            ("mod 7.5 2", "!expected two numbers"),
            ("rem 7.5 2", "1.5"),
            ("neg 0x10", "-16"),
            ("abs -2.5", "2.5"),
            ("min 10 6 20", "6"),
            ("max -1 6 3", "6"),
            ("avg 5 10 2", "5"),
            ("count 5 0 2", "3"),
            ("popcount 5 0 2", "2"),
            ("gt_vec 5 0 2 7", "1"),
            ("add x", "!expected list of numbers"),
            ("htons 1", if cfg!(target_endian = "little") { "256" } else { "1" }),
            ("abs -9223372036854775808", "-9223372036854775808"),
            ("mod -9223372036854775808 -1", "0"),
        ] {
            assert_eq!(eval(text), value, "{text}");
        }
    }

    #[test]
    fn truth_and_words() {
        for (text, value) in [
            ("eq 10 0xA", "true"),
            ("le 9 8", "false"),
            ("eq 10x 10x", "true"),
            ("eq \"a\" a", "true"),
            ("lt abc abd", "true"),
            ("ne 1 1.0", "false"),
            ("eq 1", "!expected two numbers"),
            ("not true", "false"),
            ("and true 1 yes", "true"),
            ("nand true false", "true"),
            ("or false 0", "false"),
            ("nor false 0", "true"),
            ("if true a b", "a"),
            ("if false a", ""),
            ("in foo bar foo", "true"),
            ("in foo bar", "false"),
            ("first \"a b\" c", "\"a b\""),
            ("length abcde", "5"),
            ("unquote \"a b\"", "a b"),
        ] {
            assert_eq!(eval(text), value, "{text}");
        }
        assert!(call("frob", "").is_none());
    }

    #[test]
    fn every_name_has_its_function() {
        let mut sorted = NAMES.to_vec();
        sorted.sort_unstable();
        assert_eq!(sorted, NAMES);
        assert!(NAMES.iter().all(|name| call(name, "").is_some()));
    }
}

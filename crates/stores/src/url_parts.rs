//! The text of a URL with a login and parameters, taken apart.

use std::collections::BTreeMap;

use percent_encoding::percent_decode_str;

/// Parts of a URL, still percent-encoded.
pub(crate) struct Parts<'a> {
    pub(crate) scheme: &'a str,
    /// `USER` or `USER:PASSWORD`.
    pub(crate) login: Option<&'a str>,
    /// Servers, and what follows them up to the parameters.
    pub(crate) place: &'a str,
    pub(crate) query: &'a str,
}

impl<'a> Parts<'a> {
    /// Splits a URL of one of the schemes.
    ///
    /// # Errors
    /// For another scheme, and if a reserved character in a password may have
    /// made its rest a server or a parameter, since those are shown.
    pub(crate) fn split(url: &'a str, schemes: &[&str]) -> Result<Self, String> {
        let (scheme, rest) = url.split_once("://").unwrap_or_default();
        if !schemes.contains(&scheme) {
            return Err(format!("its URL begins with {}://", schemes.join("://, ")));
        }
        let (before_query, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (login, place) = match before_query.rsplit_once('@') {
            Some((login, place)) => (Some(login), place),
            None => (None, before_query),
        };
        let is_stray = |part: &str| part.contains(['@', '#']);
        let in_login = |login: &str| login.contains(['@', '/']);
        if is_stray(place) || is_stray(query) || login.is_some_and(in_login) {
            return Err(format!("it has a stray '@', '/' or '#'; {ENCODE}"));
        }
        Ok(Self {
            scheme,
            login,
            place,
            query,
        })
    }

    /// Shows the user with `***` for a password, up to the `@`.
    pub(crate) fn user(&self) -> String {
        let shown = self.login.map(|login| match login.split_once(':') {
            Some((user, _)) => format!("{user}:***@"),
            None => format!("{login}@"),
        });
        shown.unwrap_or_default()
    }
}

/// The parameters behind `?`.
pub(crate) struct Parameters<'a>(BTreeMap<&'a str, &'a str>);

impl<'a> Parameters<'a> {
    /// Takes parameters whose names stand in the list `known`.
    ///
    /// # Errors
    /// For one that does not, or that is repeated.
    pub(crate) fn parse(query: &'a str, known: &str) -> Result<Self, String> {
        let mut parameters = BTreeMap::new();
        for parameter in query.split('&').filter(|text| !text.is_empty()) {
            let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            if !known.split(", ").any(|known| known == name) {
                // The text may be a piece of the password: it is not repeated.
                return Err(format!(
                    "it has a parameter that is not known; known are {known}; {ENCODE}"
                ));
            }
            if parameters.insert(name, value).is_some() {
                return Err(format!("{name} stands there twice"));
            }
        }
        Ok(Self(parameters))
    }

    /// Takes a value out, decoded.
    pub(crate) fn take(&mut self, name: &str) -> Result<Option<String>, String> {
        self.0.remove(name).map(decoded).transpose()
    }

    /// Takes a value that is 1 or 0.
    pub(crate) fn flag(&mut self, name: &str) -> Result<Option<bool>, String> {
        match self.0.remove(name) {
            None => Ok(None),
            Some("1") => Ok(Some(true)),
            Some("0") => Ok(Some(false)),
            Some(_) => Err(format!("{name} is 1 or 0")),
        }
    }

    /// Returns the parameters that were not taken, as a query.
    pub(crate) fn rest(&self) -> String {
        let rest = self.0.iter().map(|(name, value)| format!("{name}={value}"));
        rest.collect::<Vec<_>>().join("&")
    }
}

/// Undoes percent-encoding.
pub(crate) fn decoded(text: &str) -> Result<String, String> {
    let is_digits = |rest: &str| {
        let digits = rest.bytes().take(2).filter(u8::is_ascii_hexdigit);
        digits.count() == 2
    };
    if !text.split('%').skip(1).all(is_digits) {
        return Err(format!("a '%' stands without two digits; {ENCODE}"));
    }
    let decoded = percent_decode_str(text).decode_utf8();
    let decoded = decoded.map_err(|_| "what is behind a % is no UTF-8")?;
    Ok(decoded.into_owned())
}

pub(crate) const ENCODE: &str = "in a password write %40 for '@', %3A for ':', %2F for '/', \
                                 %3F for '?', %23 for '#', %2C for ',', %25 for '%'";

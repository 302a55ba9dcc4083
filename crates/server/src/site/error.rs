//! Errors of site documents.

use std::fmt;

/// Reasons why a site can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SiteError {
    /// A document of a later version.
    #[error(
        "the site has format {0}, this version reads formats 1 to 3; write it again with `sekisho host set`, or upgrade"
    )]
    Format(u32),
    /// A document with more bytes than one of its format may have.
    #[error("the site's document has {0} bytes, more than the {1} that its format allows")]
    TooLong(usize, usize),
    /// The document is no JSON.
    #[error(
        "the site's document can't be read: {0}; write JSON such as {{\"root\": \"/srv/www\"}}"
    )]
    Syntax(String),
    /// A stored document has a key that stands in the configuration since. Its host is
    /// answered with 503.
    #[error("{0}")]
    Moved(Wrong),
    /// A key or value is wrong.
    #[error("{0}")]
    Wrong(#[from] Wrong),
}

/// Wrong key or value of a site document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// Path of keys to the value, with indices as numbers; empty for the whole
    /// document.
    key: Vec<String>,
    /// What is wrong, and what to write.
    problem: String,
}

impl Wrong {
    /// Makes an error of the value at hand.
    pub(crate) fn new(problem: impl Into<String>) -> Self {
        Self {
            key: Vec::new(),
            problem: problem.into(),
        }
    }

    /// Makes an error of the value at a path of keys.
    pub(crate) fn at(key: impl IntoIterator<Item = String>, problem: String) -> Self {
        Self {
            key: key.into_iter().collect(),
            problem,
        }
    }

    /// Returns the path of keys to the value.
    #[must_use]
    pub fn key(&self) -> &[String] {
        &self.key
    }

    /// Returns what is wrong, and what to write.
    #[must_use]
    pub fn problem(&self) -> &str {
        &self.problem
    }
}

impl std::error::Error for Wrong {}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.key.is_empty() {
            return f.write_str(&self.problem);
        }
        f.write_str("`")?;
        for (depth, key) in self.key.iter().enumerate() {
            match depth {
                _ if key.parse::<usize>().is_ok() => write!(f, "[{key}]")?,
                0 => f.write_str(key)?,
                _ => write!(f, ".{key}")?,
            }
        }
        write!(f, "`: {}", self.problem)
    }
}

/// Result of a check, whose error learns the keys above it on its way out.
pub(crate) type Checked<T> = Result<T, Wrong>;

/// Adds the key above a value to an error.
pub(crate) trait Below {
    /// Adds a key.
    fn below(self, key: &str) -> Self;
}

impl<T> Below for Checked<T> {
    fn below(self, key: &str) -> Self {
        self.map_err(|mut wrong| {
            wrong.key.insert(0, key.to_owned());
            wrong
        })
    }
}

/// Checks the value of a key, if the key is there.
pub(crate) fn checked<V, T>(
    key: &str,
    value: Option<V>,
    check: impl FnOnce(V) -> Checked<T>,
) -> Checked<Option<T>> {
    value.map(check).transpose().below(key)
}

/// Refuses more than `most` of something.
pub(crate) fn at_most(most: usize, count: usize, what: &str) -> Checked<()> {
    match count > most {
        true => Err(Wrong::new(format!("{count} {what} are more than {most}"))),
        false => Ok(()),
    }
}

/// Refuses a list without items, and one of more than `most`.
pub(crate) fn one_to<T>(most: usize, items: &[T], what: &str) -> Checked<()> {
    match (1..=most).contains(&items.len()) {
        true => Ok(()),
        false => Err(Wrong::new(format!("write 1 to {most} {what}"))),
    }
}

/// Refuses a short list in which an item stands twice.
pub(crate) fn unlike<T: PartialEq>(items: &[T], what: &str) -> Checked<()> {
    let is_again = |at: &usize| items[..*at].contains(&items[*at]);
    match (0..items.len()).find(is_again) {
        Some(at) => Err(Wrong::new(format!("the {what} stands twice"))).below(&at.to_string()),
        None => Ok(()),
    }
}

/// Checks each item of a list, and adds its index to an error.
pub(crate) fn each<I, T>(items: &[I], check: impl Fn(&I) -> Checked<T>) -> Checked<Box<[T]>> {
    let items = items.iter().enumerate();
    items
        .map(|(index, item)| check(item).below(&index.to_string()))
        .collect()
}

//! Problems of a file, which are told together.

use super::locate::Problem;

/// Problems that were found so far.
#[derive(Debug, Default)]
pub(crate) struct Problems {
    found: Vec<Problem>,
    /// Places whose values were not read, and those that misspelt keys probably meant.
    unread: Vec<Vec<String>>,
}

impl Problems {
    /// Adds a problem. Those beyond [`MOST`] are dropped: a list in the file may have a
    /// wrong value in each of many entries.
    pub(crate) fn add(&mut self, problem: Problem) {
        if self.found.len() < MOST {
            self.found.push(problem);
        }
    }

    /// Adds the problem of a key that is not known, or whose value has a wrong type.
    pub(super) fn add_unread(&mut self, problem: Problem) {
        let marks = ["did you mean `", "is called `"];
        let mut meant = marks
            .iter()
            .filter_map(|mark| problem.text.split_once(mark));
        if let Some((_, meant)) = meant.next() {
            let mut place = problem.path.clone();
            place.pop();
            place.extend(meant.split('`').next().map(str::to_owned));
            self.unread.push(place);
        }
        self.unread.push(problem.path.clone());
        self.add(problem);
    }

    /// Adds the problem that the value at `needed` is missing. Does nothing if a problem of
    /// that value was added already.
    pub(crate) fn add_lack(&mut self, needed: &[&str], problem: Problem) {
        if !self.is_told(needed) {
            self.add(problem);
        }
    }

    /// Adds the problem that the value at `place` is missing, unless one of it was added.
    pub(crate) fn add_missing(&mut self, place: &[&str], text: &str) {
        self.add_lack(place, Problem::at(place, text));
    }

    /// Reads the text of a key; none if the key is left out, or if its text is wrong, which
    /// is noted.
    pub(crate) fn parsed<T>(
        &mut self,
        place: &[&str],
        text: Option<&String>,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        let value = parse(text?);
        self.keep(value.map_err(|why| Problem::at(place, why)))
    }

    /// Reads the texts of a list. Wrong ones are noted with their index, and left out.
    pub(crate) fn list<T, L: FromIterator<T>>(
        &mut self,
        section: &str,
        key: &str,
        texts: &[String],
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> L {
        let one = |(index, text): (usize, &String)| {
            self.parsed(&[section, key, &index.to_string()], Some(text), &parse)
        };
        texts.iter().enumerate().filter_map(one).collect()
    }

    /// Returns the value, or notes the problem.
    pub(crate) fn keep<T>(&mut self, result: Result<T, Problem>) -> Option<T> {
        result.map_err(|problem| self.add(problem)).ok()
    }

    /// Returns the value, or notes the problem and returns a default, which nobody uses:
    /// with a problem there is no configuration.
    pub(crate) fn or_default<T: Default>(&mut self, result: Result<T, Problem>) -> T {
        self.keep(result).unwrap_or_default()
    }

    /// Returns whether a problem of this place, or of one below it, was told, or that the
    /// value above it was not read.
    pub(crate) fn is_told(&self, place: &[&str]) -> bool {
        let agree = |told: &[String]| told.iter().zip(place).all(|(a, b)| a == b);
        let mut found = self.found.iter().map(|problem| &problem.path);
        found.any(|told| told.len() >= place.len() && agree(told))
            || self.unread.iter().any(|told| agree(told))
    }

    pub(crate) fn len(&self) -> usize {
        self.found.len()
    }

    /// Returns the problems in the order in which they were found.
    pub(super) fn found(self) -> Vec<Problem> {
        self.found
    }
}

/// Problems of one file that are told.
pub(super) const MOST: usize = 100;

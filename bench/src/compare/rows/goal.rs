//! Goals of a row.

/// Goal of a figure of sekisho: the bound, and the value hoped for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Goal {
    pub(crate) figure: &'static str,
    pub(crate) scale: Scale,
    pub(crate) must: f64,
    pub(crate) aim: Option<f64>,
    /// Label of the goal's case; None for all cases of sekisho.
    pub(crate) case: Option<&'static str>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Scale {
    /// Ratio to the same figure of the first case; with two binaries, of the
    /// baseline.
    Ratio,
    Absolute,
    /// Sum of the same figure of other cases, each times a factor, plus `must`.
    Over(&'static [(f64, &'static str)]),
    /// Another figure of the case, plus `must` or times this factor, whichever
    /// is larger.
    Near(&'static str, f64),
}

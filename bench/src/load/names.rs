//! Host names of a run, and the order in which they are requested.

use std::fs;
use std::path::Path;
use std::str::FromStr;

use anyhow::{Context, Result, bail, ensure};

/// Hosts of a run.
#[derive(Debug)]
pub enum Names {
    List(Vec<String>),
    /// Names by number: a million of them take two strings.
    Pattern {
        before: String,
        after: String,
        count: usize,
    },
}

impl Names {
    pub fn from_file(file: &Path) -> Result<Self> {
        let text = fs::read_to_string(file)
            .with_context(|| format!("cannot read names from {}", file.display()))?;
        let names: Vec<String> = text
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty())
            .map(str::to_owned)
            .collect();
        ensure!(!names.is_empty(), "{} holds no names", file.display());
        Ok(Self::List(names))
    }

    pub fn from_pattern(pattern: &str, count: usize) -> Result<Self> {
        let Some((before, after)) = pattern.split_once("{n}") else {
            bail!("the pattern {pattern:?} has no {{n}} for the host's number");
        };
        ensure!(count > 0, "--count must be at least 1");
        Ok(Self::Pattern {
            before: before.to_owned(),
            after: after.to_owned(),
            count,
        })
    }

    pub fn len(&self) -> usize {
        match self {
            Self::List(names) => names.len(),
            Self::Pattern { count, .. } => *count,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn name(&self, index: usize) -> String {
        match self {
            Self::List(names) => names[index].clone(),
            Self::Pattern { before, after, .. } => format!("{before}{index}{after}"),
        }
    }
}

/// Order in which hosts are requested.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Order {
    Walk,
    Random,
    /// The n-th host is requested in proportion to n^-s.
    Zipf(f64),
    /// A walk over the first hosts, this many, and one over the others, in turn.
    Half(usize),
}

impl FromStr for Order {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        Ok(match text.split_once(':').unwrap_or((text, "1")) {
            ("walk", _) => Self::Walk,
            ("random", _) => Self::Random,
            ("zipf", exponent) => Self::Zipf(exponent.parse().context("zipf:S takes a number")?),
            ("half", first) => Self::Half(first.parse().context("half:N takes a number")?),
            _ => bail!("expected walk, random, zipf, zipf:S or half:N"),
        })
    }
}

/// Endless sequence of host numbers below `len`, determined by the seed.
#[derive(Debug)]
pub struct Picker {
    len: usize,
    position: usize,
    /// Half only: number of picks so far.
    picked: usize,
    random: SplitMix,
    order: Order,
    /// Zipf only: for each host, the share of all picks up to and including it.
    cumulative: Vec<f64>,
}

impl Picker {
    pub fn new(order: Order, len: usize, start: usize, seed: u64) -> Self {
        let order = match order {
            Order::Half(first) if first == 0 || first >= len => Order::Walk,
            order => order,
        };
        let cumulative = match order {
            Order::Zipf(exponent) => zipf_shares(len, exponent),
            Order::Walk | Order::Random | Order::Half(_) => Vec::new(),
        };
        Self {
            len,
            position: start % len,
            picked: 0,
            random: SplitMix(seed),
            order,
            cumulative,
        }
    }

    pub fn pick(&mut self) -> usize {
        match self.order {
            Order::Walk => {
                let index = self.position;
                self.position = (index + 1) % self.len;
                index
            }
            Order::Half(first) => self.pick_of_halves(first),
            Order::Random => ((self.random.unit() * self.len as f64) as usize).min(self.len - 1),
            Order::Zipf(_) => {
                let point = self.random.unit();
                let index = self.cumulative.partition_point(|share| *share <= point);
                index.min(self.len - 1)
            }
        }
    }

    fn pick_of_halves(&mut self, first: usize) -> usize {
        self.picked += 1;
        if self.picked.is_multiple_of(2) {
            return self.picked / 2 % first;
        }
        let others = self.len - first;
        let other = self.position % others;
        self.position = other + 1;
        first + other
    }
}

fn zipf_shares(len: usize, exponent: f64) -> Vec<f64> {
    let mut sum = 0.0;
    let mut shares: Vec<f64> = (1..=len)
        .map(|rank| {
            sum += (rank as f64).powf(-exponent);
            sum
        })
        .collect();
    for share in &mut shares {
        *share /= sum;
    }
    shares
}

/// SplitMix64 generator (Steele, Lea and Flood): one addition and three mixing
/// steps. Any seed will do.
#[derive(Debug)]
pub struct SplitMix(pub u64);

impl SplitMix {
    /// Returns a number of at least 0 and below 1.
    pub fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^= bits >> 31;
        (bits >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Returns a random number below `end`, which must not be 0.
    pub fn below(&mut self, end: usize) -> usize {
        ((self.unit() * end as f64) as usize).min(end - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn walk_visits_each_host_once_per_round() {
        let mut picker = Picker::new(Order::Walk, 4, 3, 0);
        let picks: Vec<usize> = (0..6).map(|_| picker.pick()).collect();
        assert_eq!(picks, [3, 0, 1, 2, 3, 0]);
    }

    #[test]
    fn every_second_host_of_a_half_is_a_first_one() {
        let mut picker = Picker::new(Order::Half(2), 5, 1, 0);
        let picks: Vec<usize> = (0..10).map(|_| picker.pick()).collect();
        assert_eq!(picks, [3, 1, 4, 0, 2, 1, 3, 0, 4, 1]);
        let mut all = Picker::new(Order::Half(2), 2, 0, 0);
        assert_eq!([all.pick(), all.pick(), all.pick()], [0, 1, 0]);
    }

    #[test]
    fn zipf_follows_its_law() {
        let mut picker = Picker::new(Order::Zipf(1.0), 1_000, 0, 7);
        let mut counts = vec![0_u32; 1_000];
        for _ in 0..200_000 {
            counts[picker.pick()] += 1;
        }
        // The harmonic number of 1,000 is 7.485: the first host gets 13.4 % of
        // all picks.
        assert!((counts[0] as f64 / 200_000.0 - 0.1336).abs() < 0.005);
        assert!((counts[0] as f64 / counts[9] as f64 - 10.0).abs() < 1.0);
    }

    #[test]
    fn random_covers_all_hosts_evenly() {
        let mut picker = Picker::new(Order::Random, 10, 0, 1);
        let mut counts = [0_u32; 10];
        for _ in 0..10_000 {
            counts[picker.pick()] += 1;
        }
        assert!(counts.iter().all(|count| (850..1_150).contains(count)));
    }

    #[test]
    fn orders_are_parsed() {
        assert_eq!("walk".parse::<Order>().unwrap(), Order::Walk);
        assert_eq!("zipf".parse::<Order>().unwrap(), Order::Zipf(1.0));
        assert_eq!("zipf:0.8".parse::<Order>().unwrap(), Order::Zipf(0.8));
        assert_eq!("half:100".parse::<Order>().unwrap(), Order::Half(100));
        assert!("half:x".parse::<Order>().is_err());
        assert!("zipf:x".parse::<Order>().is_err());
        assert!("sideways".parse::<Order>().is_err());
    }

    #[test]
    fn patterns_make_names() {
        let names = Names::from_pattern("h{n}.example.test", 10).unwrap();
        assert_eq!((names.len(), names.name(7)), (10, "h7.example.test".into()));
        assert!(Names::from_pattern("h.example.test", 10).is_err());
    }
}

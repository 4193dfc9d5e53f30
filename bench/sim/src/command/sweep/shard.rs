//! A shard of a sweep, for one process of many: `--shard 3/64`.
//!
//! Points are assigned round-robin, so that expensive points, which are close together, are spread over all shards.

use std::fmt;
use std::str::FromStr;

/// Maximum number of shards of a sweep.
const SHARDS_MAX: usize = 100_000;

/// One of several parts of a sweep, numbered from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shard {
    index: usize,
    of: usize,
}

impl Shard {
    /// Whether a point belongs to the shard.
    pub(super) fn has(self, point: usize) -> bool {
        point % self.of == self.index
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.of)
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Shard, String> {
        let parts = text.split_once('/');
        let parts = parts.and_then(|(index, of)| Some((index.parse().ok()?, of.parse().ok()?)));
        let Some((index, of)) = parts else {
            return Err("must be INDEX/COUNT, such as 0/64".to_owned());
        };
        if of == 0 || of > SHARDS_MAX {
            return Err(format!("{of} shards: a sweep must have 1 to {SHARDS_MAX} shards"));
        }
        if index >= of {
            return Err(format!(
                "shards are numbered from 0: the last one of {of} is {}/{of}",
                of - 1
            ));
        }
        Ok(Shard { index, of })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_point_is_in_one_shard() {
        for of in 1..7 {
            let shards: Vec<Shard> = (0..of).map(|index| Shard { index, of }).collect();
            for point in 0..40 {
                assert_eq!(shards.iter().filter(|shard| shard.has(point)).count(), 1);
            }
        }
    }

    #[test]
    fn a_shard_is_written_as_it_is_read() {
        let shard: Shard = "3/64".parse().unwrap();
        assert_eq!((shard, shard.to_string().as_str()), (Shard { index: 3, of: 64 }, "3/64"));
        for (text, says) in [
            ("64/64", "the last one of 64 is 63/64"),
            ("3", "INDEX/COUNT"),
            ("-1/4", "INDEX/COUNT"),
            ("0/0", "0 shards: a sweep must have 1 to 100000 shards"),
        ] {
            let error = text.parse::<Shard>().unwrap_err();
            assert!(error.contains(says), "{text}: {error}");
        }
    }
}

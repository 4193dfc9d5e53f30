//! A set of policies in one word, so that an unused policy costs one bit test.

/// Whether claims and deltas consult policies. With the feature `no-policies`, they do not, so that `omega-bench` can
/// measure what unused policies cost. Nothing ships with it.
pub(super) const ARE_CONSULTED: bool = cfg!(not(feature = "no-policies"));

/// A set of policies: one bit for each, in the order of the list in `list.rs`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PolicySet(u32);

impl PolicySet {
    /// No policy.
    pub const NONE: PolicySet = PolicySet(0);

    /// The set of the policy with this index in the list.
    pub(super) const fn at(position: u32) -> PolicySet {
        PolicySet(1 << position)
    }

    /// The set itself if the condition is true, otherwise the empty set.
    #[inline]
    pub fn when(self, condition: bool) -> PolicySet {
        if ARE_CONSULTED && condition { self } else { PolicySet::NONE }
    }

    #[inline]
    pub fn is_empty(self) -> bool {
        !ARE_CONSULTED || self.0 == 0
    }

    /// Whether the set contains at least one of these policies.
    #[inline]
    pub fn has(self, some: PolicySet) -> bool {
        ARE_CONSULTED && self.0 & some.0 != 0
    }
}

impl std::ops::BitAnd for PolicySet {
    type Output = PolicySet;

    #[inline]
    fn bitand(self, other: PolicySet) -> PolicySet {
        if ARE_CONSULTED { PolicySet(self.0 & other.0) } else { PolicySet::NONE }
    }
}

impl std::ops::BitOrAssign for PolicySet {
    #[inline]
    fn bitor_assign(&mut self, other: PolicySet) {
        self.0 |= other.0;
    }
}

/// A policy of the list, with its bit.
pub trait Listed {
    /// The set that contains only this policy.
    const BIT: PolicySet;
}

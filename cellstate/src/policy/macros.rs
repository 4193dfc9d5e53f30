//! Code that is generated from the list of policies. Each generated function calls one function of each listed policy,
//! in order, without a virtual call.

/// Implements the functions that the cell and views share, for a struct with a ledger for each policy.
macro_rules! ledgers {
    ($all:ident: $($name:ident: $module:ident::$state:ident,)+) => {
        impl Checks for $all {
            #[inline]
            fn admit(&self, at: &Placement<'_>, context: &Context<'_>) -> Result<(), Reason> {
                let met = at.need.policies & self.checking;
                if met.is_empty() { Ok(()) } else { self.admit_by(met, at, context) }
            }

            #[inline]
            fn check(&self, at: &Placement<'_>, context: &Context<'_>) -> Result<(), Reason> {
                let met = at.need.policies & self.checking;
                if met.is_empty() { Ok(()) } else { self.check_by(met, at, context) }
            }
        }

        impl Default for $all {
            fn default() -> $all {
                let (checking, counting) = (PolicySet::NONE, PolicySet::NONE);
                let mut all = $all { checking, counting, $($name: Default::default(),)+ };
                all.refresh(&MachineIndex::default());
                all
            }
        }

        // The calls of the policies are not inlined, so that a caller is short if it meets no policy.
        impl $all {
            #[inline(never)]
            fn admit_by(
                &self,
                met: PolicySet,
                at: &Placement<'_>,
                context: &Context<'_>,
            ) -> Result<(), Reason> {
                $(if met.has(<super::$module::$state as Listed>::BIT) {
                    self.$name.admit(at, context)?;
                })+
                Ok(())
            }

            #[inline(never)]
            fn check_by(
                &self,
                met: PolicySet,
                at: &Placement<'_>,
                context: &Context<'_>,
            ) -> Result<(), Reason> {
                $(if met.has(<super::$module::$state as Listed>::BIT) {
                    self.$name.check(at, context)?;
                })+
                Ok(())
            }

            #[inline(never)]
            fn count_by(&mut self, met: PolicySet, at: &Placement<'_>, sign: i64) {
                $(if met.has(<super::$module::$state as Listed>::BIT) {
                    self.$name.count(at, sign);
                })+
            }
        }

        impl $all {
            /// Determines which policies check and count at present. Call it after each change of a policy's settings.
            pub fn refresh(&mut self, machine_index: &MachineIndex) {
                (self.checking, self.counting) = (PolicySet::NONE, PolicySet::NONE);
                $(
                    let bit = <super::$module::$state as Listed>::BIT;
                    self.checking |= bit.when(self.$name.is_checking(machine_index));
                    self.counting |= bit.when(self.$name.is_counting());
                )+
            }

            /// Counts a placed task if `sign` is 1, or a task that left if it is -1.
            #[inline]
            pub fn count(&mut self, at: &Placement<'_>, sign: i64) {
                let met = at.need.policies & self.counting;
                if !met.is_empty() {
                    self.count_by(met, at, sign);
                }
            }
        }
    };
}

/// Defines the structs of all policies.
macro_rules! policies {
    ($($(#[$doc:meta])* $name:ident: $module:ident::$state:ident $(with $columns:ident)?,)+) => {
        /// The index of each policy in the list.
        #[expect(non_camel_case_types, reason = "they are named after the fields")]
        enum Position { $($name,)+ }

        $(impl Listed for super::$module::$state {
            const BIT: PolicySet = PolicySet::at(Position::$name as u32);
        })+

        /// The state of every policy in the cell.
        #[derive(Clone, Debug)]
        pub struct Policies {
            checking: PolicySet,
            counting: PolicySet,
            $($(#[$doc])* pub $name: super::$module::$state,)+
        }

        /// The mirror of every policy in a view.
        #[derive(Debug)]
        pub struct Mirrors {
            checking: PolicySet,
            counting: PolicySet,
            $($(#[$doc])* pub $name: <super::$module::$state as Policy>::Mirror,)+
        }

        /// The notes that every policy took about one transaction.
        #[derive(Clone, Copy, Debug, Default)]
        pub struct Notes {
            $(pub(super) $name: <super::$module::$state as Policy>::Note,)+
        }

        /// The columns of every policy in a delta.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct PolicyColumns {
            $($(
                #[doc = concat!("Those of the policy `", stringify!($state), "`.")]
                pub $name: super::$module::$columns,
            )?)+
        }

        impl Columns for PolicyColumns {
            fn clear(&mut self) {
                $($(<super::$module::$columns as Columns>::clear(&mut self.$name);)?)+
            }

            fn append(&mut self, later: &PolicyColumns, again: &RowsAgain<'_>) {
                $($(<super::$module::$columns as Columns>::append(&mut self.$name, &later.$name, again);)?)+
            }

            fn nothing_since(&self) -> PolicyColumns {
                PolicyColumns {
                    $($($name: <super::$module::$columns as Columns>::nothing_since(&self.$name),)?)+
                }
            }
        }

        ledgers!(Policies: $($name: $module::$state,)+);
        ledgers!(Mirrors: $($name: $module::$state,)+);

        impl PolicySet {
            /// The policies that concern the tasks of a group.
            pub fn concerning(job: &Job, group: &TaskGroup) -> PolicySet {
                let mut set = PolicySet::NONE;
                $(set |= <super::$module::$state as Listed>::BIT.when(<super::$module::$state>::concerns(job, group));)+
                set
            }
        }

        impl PolicySet {
            /// The policies that concern a transaction, whatever tasks it has.
            #[inline]
            pub fn of_transaction(txn: &Transaction) -> PolicySet {
                let mut set = PolicySet::NONE;
                $(set |= <super::$module::$state as Listed>::BIT.when(<super::$module::$state>::concerns_transaction(txn));)+
                set
            }
        }

        impl Policies {
            /// The policies that concern a group's tasks and check placements at present.
            #[inline]
            pub fn meeting(&self, need: &Need) -> PolicySet {
                need.policies & self.checking
            }

            /// Checks whether a placed task may grow by these amounts. Called before amounts are compared.
            ///
            /// # Errors
            /// The first reason against the growth, in the order of the list.
            pub fn admit_resize(
                &self,
                by: &Placement<'_>,
                context: &Context<'_>,
            ) -> Result<(), Reason> {
                let met = self.meeting(by.need);
                $(if met.has(<super::$module::$state as Listed>::BIT) {
                    self.$name.admit_resize(by, context)?;
                })+
                Ok(())
            }

            /// Checks whether a placed task may grow by these amounts. Called if its machine has them free.
            ///
            /// # Errors
            /// The first reason against the growth, in the order of the list.
            pub fn check_resize(
                &self,
                by: &Placement<'_>,
                context: &Context<'_>,
            ) -> Result<(), Reason> {
                let met = self.meeting(by.need);
                $(if met.has(<super::$module::$state as Listed>::BIT) {
                    self.$name.check_resize(by, context)?;
                })+
                Ok(())
            }

            /// Calls `Policy::note_resize` of every policy before a task is resized.
            pub fn note_resize(&self, by: &Placement<'_>, machine_index: &MachineIndex, notes: &mut Notes) {
                let met = by.need.policies & self.counting;
                $(if met.has(<super::$module::$state as Listed>::BIT) {
                    self.$name.note_resize(by, machine_index, &mut notes.$name);
                })+
            }

            /// Calls `Policy::note_removal` of every policy before a task is released or evicted.
            #[inline]
            pub fn note_removal(&self, at: &Placement<'_>, machine_index: &MachineIndex, notes: &mut Notes) {
                let met = self.meeting(at.need);
                if !met.is_empty() {
                    self.note_removal_by(met, at, machine_index, notes);
                }
            }

            #[inline(never)]
            fn note_removal_by(
                &self,
                met: PolicySet,
                at: &Placement<'_>,
                machine_index: &MachineIndex,
                notes: &mut Notes,
            ) {
                $(if met.has(<super::$module::$state as Listed>::BIT) {
                    self.$name.note_removal(at, machine_index, &mut notes.$name);
                })+
            }
        }

        impl Mirrors {
            /// Whether a mirror counts the tasks of a group at present.
            pub fn count_tasks_of(&self, job: &Job, group: &TaskGroup) -> bool {
                !self.counting.is_empty()
                    && !(PolicySet::concerning(job, group) & self.counting).is_empty()
            }

            /// Clears all data about a view's machines.
            pub fn reset(&mut self) {
                $(Mirror::<<super::$module::$state as Policy>::Columns>::reset(&mut self.$name);)+
            }

            /// Applies the columns of every policy in a delta.
            pub fn apply(&mut self, columns: &PolicyColumns, mut applying: Applying<'_>) {
                if !ARE_CONSULTED {
                    return;
                }
                $($({
                    let own: &super::$module::$columns = &columns.$name;
                    self.$name.apply(own, applying.again());
                })?)+
                self.refresh(applying.machine_index);
            }
        }

        impl Policies {
            /// The policies whose effect at `now_ms` differs from that at `before_ms`.
            pub fn changing_between(&self, before_ms: u64, now_ms: u64) -> PolicySet {
                let mut set = PolicySet::NONE;
                $(set |= <super::$module::$state as Listed>::BIT.when(self.$name.changes_between(before_ms, now_ms));)+
                set
            }

            /// Advances these policies to `now_ms`. Called only for policies whose effect has changed by then.
            pub fn pass_time(&mut self, some: PolicySet, machine_index: &mut MachineIndex, now_ms: u64) {
                $(if some.has(<super::$module::$state as Listed>::BIT) {
                    self.$name.pass_time(machine_index, now_ms);
                })+
            }

            /// Whether the passing of time alone will change the state soon.
            pub fn are_near_an_edge(&self, now_ms: u64) -> bool {
                $(self.$name.is_near_an_edge(now_ms))||+
            }

            /// Whether outcomes of commands may depend on the time.
            pub fn depend_on_time(&self) -> bool {
                $(self.$name.depends_on_time())||+
            }

            /// Counts the resize of a placed task.
            pub fn resize(&mut self, by: &Placement<'_>) {
                let met = by.need.policies & self.counting;
                $(if met.has(<super::$module::$state as Listed>::BIT) {
                    self.$name.resize(by);
                })+
            }

            /// Whether a policy may have values in the columns of changed rows at present.
            pub fn any_writes_rows(&self) -> bool {
                let mut writing = PolicySet::NONE;
                $(writing |= <super::$module::$state as Listed>::BIT.when(<super::$module::$state as Policy>::WRITES_ROWS);)+
                self.counting.has(writing)
            }

            /// Writes the columns of a changed row.
            #[inline]
            pub fn write_row(&self, slot: u32, columns: &mut PolicyColumns) {
                $($(if <super::$module::$state as Policy>::WRITES_ROWS
                    && self.counting.has(<super::$module::$state as Listed>::BIT)
                {
                    let own: &mut super::$module::$columns = &mut columns.$name;
                    self.$name.write_row(slot, own);
                })?)+
            }

            /// Writes the parts that every delta has.
            pub fn write_head(&self, columns: &mut PolicyColumns) {
                if !ARE_CONSULTED {
                    return;
                }
                $($({
                    let own: &mut super::$module::$columns = &mut columns.$name;
                    self.$name.write_head(own);
                })?)+
            }

            /// Writes the parts of these policies that change by commands or by the passing of time.
            pub fn write_change(&self, some: PolicySet, columns: &mut PolicyColumns, rows: usize) {
                $($(if some.has(<super::$module::$state as Listed>::BIT) {
                    let own: &mut super::$module::$columns = &mut columns.$name;
                    self.$name.write_change(own, rows);
                })?)+
            }

            /// Writes the parts that only a full delta has, apart from its rows.
            pub fn write_whole(&self, columns: &mut PolicyColumns) {
                $($({
                    let own: &mut super::$module::$columns = &mut columns.$name;
                    self.$name.write_whole(own);
                })?)+
            }

            /// Whether all sums stay within their bounds with one more placement.
            pub fn can_count(&self, at: &Placement<'_>) -> bool {
                $((!at.need.policies.has(<super::$module::$state as Listed>::BIT) || self.$name.can_count(at)))&&+
            }

            /// Adds the parts of a snapshot.
            pub fn capture(&self, snapshot: &mut SnapshotState) {
                $(self.$name.capture(snapshot);)+
            }

            /// Restores the parts of a snapshot.
            ///
            /// # Errors
            /// The first part that is impossible.
            pub fn restore(&mut self, mut restoring: Restoring<'_>) -> Result<(), SnapshotStateError> {
                $(self.$name.restore(restoring.again())?;)+
                self.refresh(restoring.machine_index);
                Ok(())
            }

            /// Adds the parts of a state to the state hash.
            pub fn hash(&self, into: &mut impl Hasher) {
                $(self.$name.hash(into);)+
            }

            /// Adds the parts of a snapshot to the state hash.
            pub fn hash_snapshot(snapshot: &SnapshotState, into: &mut impl Hasher) {
                $(<super::$module::$state>::hash_snapshot(snapshot, into);)+
            }

            /// Creates states with these settings and without any counts.
            pub fn uncounted(&self) -> Policies {
                let Policies { checking, counting, .. } = *self;
                Policies { checking, counting, $($name: self.$name.uncounted(),)+ }
            }

            /// Compares all sums with those of a recount.
            ///
            /// # Errors
            /// The first difference.
            pub fn audit(&self, recount: &Policies) -> Result<(), AuditError> {
                $(self.$name.audit(&recount.$name)?;)+
                Ok(())
            }
        }
    };
}

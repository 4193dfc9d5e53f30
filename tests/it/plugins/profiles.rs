//! Profile files: a file results in the same profile as the equivalent code, errors name their place in the file, and
//! the schema allows exactly the files that the parser accepts.

use crate::cell::small;
use crate::repository::json_schema::allows;
use crate::scheduling::placement::{claimed, how, rng};
use crate::scheduling::placement_world::World;
use omega_cellstate::View;
use omega_core::{Job, KindId, Kinds, ResourceKind, Unit};
use omega_schedulers::config::{Fault, Plugin, Point, Profiles, Registry, schema};
use omega_schedulers::plugins::{
    AvoidMarked, Balanced, BalancedAllocation, ImageLocality, InterPodAffinity, LeastAllocated,
    MostAllocated, NodeAffinity, PackedDevices, PodTopologySpread, PreferredAffinity, SpreadWishes,
    TaintToleration,
};
use omega_schedulers::{
    Admit, Events, GroupPlacement, MachineFilter, MachineRef, Order, PerMachine, Placer, Profile,
    Queued, Refused, Scheduler, Search, Settings, Tasks,
};
use omega_tests::random::Dice;
use proptest::prelude::*;
use serde_json::Value;
use std::cmp::Ordering;

/// The name of a plugin in files, and the equivalent call.
type Known = (&'static str, fn(Profile, &[(KindId, u32)], i32) -> Profile);

const SCORES: [Known; 14] = [
    ("least_allocated", |p, kinds, w| p.with_score(LeastAllocated::new(kinds), w)),
    ("NodeResourcesMostAllocated", |p, kinds, w| p.with_score(MostAllocated::new(kinds), w)),
    ("most_allocated", |p, kinds, w| p.with_score(MostAllocated::new(kinds), w)),
    ("balanced", |p, _, w| p.with_score(Balanced, w)),
    ("packed_devices", |p, _, w| p.with_score(PackedDevices, w)),
    ("preferred_affinity", |p, _, w| p.with_score(PreferredAffinity, w)),
    ("spread_wishes", |p, _, w| p.with_score(SpreadWishes, w)),
    ("NodeAffinity", |p, _, w| p.with_relative(NodeAffinity::default(), w)),
    ("PodTopologySpread", |p, _, w| p.with_relative(PodTopologySpread, w)),
    ("taint_toleration", |p, _, w| p.with_relative(TaintToleration, w)),
    ("InterPodAffinity", |p, _, w| p.with_relative(InterPodAffinity::default(), w)),
    ("image_locality", |p, _, w| p.with_score(ImageLocality, w)),
    ("NodeResourcesBalancedAllocation", |p, _, w| {
        p.with_score(BalancedAllocation::new(&["cpu", "memory"], &Kinds::standard()), w)
    }),
    ("avoid_marked", |p, _, w| p.with_score(AvoidMarked, w)),
];

/// The default name of a score.
fn own_name(name: &str) -> String {
    let registry = Registry::built_in();
    registry.find(Point::Score, name).expect("it is registered").name().to_owned()
}

/// A random profile, as a file and as code.
fn random_profile(dice: &mut Dice) -> (String, Profile) {
    let (base, mut profile) = match dice.below(4) {
        0 => ("service", Profile::service()),
        1 => ("batch", Profile::batch()),
        2 => ("kube", Profile::kube(&Kinds::standard())),
        _ => ("empty", Profile::first_fit()),
    };
    let mut file = format!("[[profile]]\nname = \"p\"\nbase = \"{base}\"\n");
    let has: Vec<&str> = profile.evaluator().weights().map(|(name, _)| name).collect();
    let disabled: Vec<&str> = has.into_iter().filter(|_| dice.chance(30)).collect();
    file += &format!("disable = {disabled:?}\n");
    for name in &disabled {
        profile = profile.without_score(name);
    }
    let mut named: Vec<String> = disabled.into_iter().map(str::to_owned).collect();
    for _ in 0..dice.below(5) {
        let (name, add) = dice.pick(&SCORES);
        let own = own_name(name);
        if named.contains(&own) {
            continue;
        }
        let weight = 1 + dice.below(9) as i32;
        file += &format!("[[profile.score]]\nplugin = \"{name}\"\nweight = {weight}\n");
        let mut kinds = vec![(KindId::CPU, 1), (KindId::MEMORY, 1)];
        if own.ends_with("_allocated") && dice.chance(50) {
            let weight = 1 + dice.below(100) as u32;
            kinds = vec![(KindId::MEMORY, weight), (KindId::CPU, 1)];
            file += &format!(
                "args = {{ kinds = [{{ name = \"memory\", weight = {weight} }}, {{ name = \"cpu\" }}] }}\n"
            );
        }
        profile = add(profile.without_score(&own), &kinds, weight);
        named.push(own);
    }
    (file, profile)
}

fn check_same(seed: u64) {
    let mut dice = Dice::new(seed);
    let (file, code) = random_profile(&mut dice);
    let read =
        Profiles::parse(&file, &Registry::built_in()).unwrap_or_else(|e| panic!("{e}\n{file}"));
    let read = read.get("p").unwrap().bind(&Kinds::standard()).unwrap();
    let sorted = |profile: &Profile| {
        let mut scores: Vec<_> = profile.evaluator().weights().collect();
        scores.sort_unstable();
        scores
    };
    assert_eq!(sorted(&read), sorted(&code), "{file}");

    let mut world = World::new(seed, 1 + dice.below(100));
    let mut group = world.random_group();
    group.count = 1 + dice.below(20) as u32;
    let tasks = group.count;
    let group = world.submit(group);
    let tasks = world.tasks(tasks);
    let mut place = |profile: &Profile| {
        profile.prepare(&mut world.view);
        let wanted = GroupPlacement { profile, placement: how(Search::Full), group };
        Placer::default().place(&mut world.view, wanted, &tasks, &mut rng(seed));
        claimed(&mut world.view)
    };
    assert_eq!(place(&read), place(&code), "{file}");
}

/// Changes a byte, a line or a word of a file. In most cases the result is invalid.
fn spoil(dice: &mut Dice, file: &str) -> String {
    const WORDS: [(&str, &str); 12] = [
        ("name", "nam"),
        ("\"service\"", "7"),
        ("weight = ", "weight = -"),
        ("weight = ", "weight = 1."),
        ("weight = ", "weight = 10000000"),
        ("score", "filter"),
        ("plugin", "wight"),
        ("base = ", "search = "),
        ("args = { kinds", "args = { kind"),
        ("cpu", "memory"),
        ("disable = [", "disable = [\"balanced\", "),
        ("disable", "near_best = 0\ndisable"),
    ];
    match dice.below(3) {
        0 => {
            let (from, to) = dice.pick(&WORDS);
            file.replacen(from, to, 1)
        }
        1 => {
            let mut lines: Vec<&str> = file.lines().collect();
            lines.remove(dice.below(lines.len()));
            lines.join("\n")
        }
        _ => {
            let mut bytes = file.as_bytes().to_vec();
            let at = dice.below(bytes.len());
            bytes[at] = *dice.pick(b"\"[]{}=,.x1\n \xff");
            String::from_utf8_lossy(&bytes).into_owned()
        }
    }
}

/// The file as JSON; `None` if it is not TOML.
fn as_json(file: &str) -> Option<Value> {
    serde_json::to_value(toml::from_str::<toml::Table>(file).ok()?).ok()
}

fn check_spoiled(seed: u64) {
    let mut dice = Dice::new(seed);
    let (sound, _) = random_profile(&mut dice);
    let file = spoil(&mut dice, &sound);
    let read = Profiles::parse(&file, &Registry::built_in());
    if let Err(error) = &read {
        let line = file.lines().nth(error.line - 1).unwrap_or("");
        assert!(error.column <= line.chars().count() + 1, "{error}\n{file}");
        assert_eq!(error.to_string().lines().count(), 1, "{error:?}");
    }
    let Some(json) = as_json(&file) else {
        assert!(matches!(read.unwrap_err().fault, Fault::Malformed(_)), "{file}");
        return;
    };
    let schema = schema(&Registry::built_in());
    let allowed = allows(&schema, &schema, &json);
    match read {
        Ok(_) => assert!(allowed, "the schema forbids what the parser takes:\n{file}"),
        // Some errors cannot be expressed by a schema; the others can.
        Err(error) => match error.fault {
            Fault::Malformed(what) if what.contains("named twice") => {}
            Fault::Malformed(_)
            | Fault::NoProfile
            | Fault::NoName
            | Fault::UnknownPlugin { .. }
            | Fault::OtherPoint { .. }
            | Fault::AlwaysThere { .. }
            | Fault::WeightTooSmall { .. } => {
                let in_disable = error.field.contains("disable");
                assert!(!allowed || in_disable, "the schema allows what is wrong:\n{file}");
            }
            _ => {}
        },
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn a_file_makes_the_profile_that_code_makes(seed in any::<u64>()) {
        check_same(seed);
    }

    #[test]
    fn a_spoiled_file_is_told_by_its_place_and_the_schema_agrees(seed in any::<u64>()) {
        check_spoiled(seed);
    }
}

#[test]
fn what_a_file_says_of_search_goes_into_the_settings() {
    let file = "[[profile]]\nname = 'p'\nbase = 'empty'\nsearch = { sampled = 7 }\nnear_best = 3\n\
                [[profile]]\nname = 'q'\nbase = 'empty'\n\
                [[profile]]\nname = 'r'\nbase = 'kube'\nsearch = { percentage = 0 }\n";
    let profiles = Profiles::parse(file, &Registry::built_in()).unwrap();
    let full = || Settings::new("s").with_search(Search::Full);
    let settings = profiles.get("p").unwrap().apply(full());
    assert_eq!(settings.placement.search, Search::Sampled { feasible: 7 });
    assert_eq!(settings.placement.near_best, 3);
    let settings = profiles.get("q").unwrap().apply(full());
    assert_eq!((settings.placement.search, settings.placement.near_best), (Search::Full, 1));
    let settings = profiles.get("r").unwrap().apply(full());
    assert_eq!(settings.placement.search, Search::Percentage(0));
    for wrong in ["101", "-1"] {
        let file = file.replace("percentage = 0", &format!("percentage = {wrong}"));
        let error = Profiles::parse(&file, &Registry::built_in()).unwrap_err().to_string();
        let expected = format!("12:10: profile[2].search: is {wrong}: must be 0 to 100");
        assert_eq!(error, expected);
    }
}

#[test]
fn a_kind_is_looked_up_by_its_name_in_each_cell() {
    let kind =
        |name: &str| ResourceKind { name: name.into(), unit: Unit::Count, compressible: false };
    let file = "[[profile]]\nname = 'p'\nbase = 'empty'\n[[profile.score]]\n\
                plugin = 'least_allocated'\n[profile.score.args]\nkinds = [\n  { name = 'fpga' },\n\
                  { name = 'cpu' },\n]\n";
    let profiles = Profiles::parse(file, &Registry::built_in()).unwrap();
    let kinds = Kinds::new(vec![kind("memory"), kind("cpu"), kind("fpga")]).unwrap();
    assert!(profiles.check(&kinds).is_ok());
    assert_eq!(
        profiles.check(&Kinds::standard()).unwrap_err().to_string(),
        "8:12: profile[0].score[0].args.kinds[0].name: the cell has no kind \"fpga\"; its kinds \
         are: cpu, memory, disk, gpu"
    );
    // A missing field has no position of its own.
    let file =
        "[[profile]]\nname = 'p'\nbase = 'empty'\n[[profile.score]]\nplugin = 'most_allocated'\n";
    let profiles = Profiles::parse(file, &Registry::built_in()).unwrap();
    let error = profiles.check(&Kinds::new(vec![kind("slots")]).unwrap()).unwrap_err();
    assert_eq!((error.line, error.column), (5, 10), "{error}");
}

/// A filter for machines whose names have a prefix.
#[derive(Clone, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Named {
    prefix: String,
}

impl MachineFilter for Named {
    fn name(&self) -> &'static str {
        "named"
    }

    fn allows(&self, _: &Tasks<'_>, machine: MachineRef<'_>) -> bool {
        machine.machine().name.starts_with(&self.prefix)
    }
}

/// A registry with the built-in plugins and the plugin `named`.
fn with_named() -> Registry {
    let named = Plugin::filter("named", |named: &Named, _: &Kinds| {
        Ok(PerMachine(Named { prefix: named.prefix.clone() }))
    });
    Registry::built_in().with(named.alias("NodeNamePrefix")).unwrap()
}

#[test]
fn a_filter_of_a_users_own_is_named_like_any_other() {
    let file = "[[profile]]\nname = 's'\nbase = 'batch'\n[[profile.filter]]\n\
                plugin = 'NodeNamePrefix'\nargs.prefix = 'm1'\n";
    let profiles = Profiles::parse(file, &with_named()).unwrap();
    let schema = schema(&with_named());
    assert!(allows(&schema, &schema, &as_json(file).unwrap()));
    let world = World::new(1, 30);
    let spec = profiles.get("s").unwrap();
    let settings = spec.apply(Settings::new("other"));
    let mut scheduler =
        Scheduler::new(&world.cell, spec.bind(&Kinds::standard()).unwrap(), settings).unwrap();
    let job = omega_core::Job::batch("j", omega_core::TaskGroup::new(1, Default::default()));
    let job = omega_core::Job { scheduler: "other".into(), ..job };
    let id = crate::cell::small::submit(&world.cell, job);
    scheduler.step(&world.cell, 0, &mut omega_schedulers::Unobserved).unwrap();
    let task = world.cell.read(|cell| cell.tasks(id).next().unwrap().1);
    let machine =
        world.cell.read(|cell| cell.machine(task.machine().unwrap()).unwrap().machine.clone());
    assert!(machine.name.starts_with("m1"), "{}", machine.name);

    let wrong = Profiles::parse(&file.replace("prefix", "suffix"), &with_named()).unwrap_err();
    let expected =
        "6:6: profile[0].filter[0].args.suffix: unknown field `suffix`, expected `prefix`";
    assert_eq!(wrong.to_string(), expected);
}

#[test]
fn a_filter_that_the_base_has_is_replaced_and_the_cell_is_still_obeyed() {
    let file = "[[profile]]\nname = 'p'\nbase = 'kube'\n[[profile.filter]]\n\
                plugin = 'NodeResourcesFit'\nargs.ignored_groups = ['example.com']\n";
    let profiles = Profiles::parse(file, &Registry::built_in()).unwrap();
    let names = |profile: &Profile| -> Vec<&str> {
        profile.evaluator().filters().map(|filter| filter.name()).collect()
    };
    let bound = |kinds: &Kinds| profiles.get("p").unwrap().bind(kinds).unwrap();
    let usual = names(&Profile::kube(&Kinds::standard()));
    assert_eq!(names(&bound(&Kinds::standard())), usual, "it has the place of the other");

    let mut kinds: Vec<ResourceKind> =
        Kinds::standard().iter().map(|(_, kind)| kind.clone()).collect();
    let name = "example.com/fpga".to_owned();
    kinds.push(ResourceKind { name, unit: Unit::Count, compressible: false });
    let ignoring = names(&bound(&Kinds::new(kinds).unwrap()));
    assert_eq!(ignoring[..usual.len()], usual);
    assert_eq!(ignoring[usual.len()..], ["resources_fit"], "what it ignores the cell checks");
}

#[test]
fn an_affinity_of_the_profile_goes_for_all_its_tasks() {
    let file = "[[profile]]\nname = 's'\nbase = 'empty'\n[[profile.filter]]\n\
                plugin = 'NodeAffinity'\n[[profile.filter.args.required]]\n\
                labels = [{ key = 'zone', operator = 'in', values = ['z1'] }]\n";
    let profiles = Profiles::parse(file, &Registry::built_in()).unwrap();
    let schema = schema(&Registry::built_in());
    assert!(allows(&schema, &schema, &as_json(file).unwrap()));
    let mut world = World::new(3, 60);
    let profile = profiles.get("s").unwrap().bind(&Kinds::standard()).unwrap();
    profile.prepare(&mut world.view);
    let group = world.submit(omega_core::TaskGroup::new(30, Default::default()));
    let tasks = world.tasks(30);
    let wanted = GroupPlacement { profile: &profile, placement: how(Search::Full), group };
    Placer::default().place(&mut world.view, wanted, &tasks, &mut rng(1));
    let rows = claimed(&mut world.view);
    assert!(!rows.is_empty());
    for row in rows {
        let machine = world.view.machine(row as usize).unwrap();
        assert_eq!(machine.labels.get("zone").map(|zone| &**zone), Some("z1"));
    }
}

#[test]
fn no_two_plugins_of_a_point_have_one_name() {
    for name in ["taints", "NodePorts"] {
        let again = Plugin::filter(name, |_: &Named, _: &Kinds| {
            Ok(PerMachine(Named { prefix: String::new() }))
        });
        let taken = Registry::built_in().with(again).unwrap_err();
        assert_eq!((taken.point, taken.name.as_str()), (Point::Filter, name));
    }
    // A plugin at another point may have the same name; it is another plugin.
    let filter = Plugin::filter("balanced", |_: &Named, _: &Kinds| {
        Ok(PerMachine(Named { prefix: String::new() }))
    });
    assert!(Registry::built_in().with(filter).is_ok());
}

/// A plugin at two points that holds back a tenant's jobs, and their tasks.
#[derive(Clone)]
struct Closed(Named);

impl Admit for Closed {
    fn name(&self) -> &'static str {
        "closed"
    }

    fn admit(&mut self, queued: Queued<'_>, _: &View) -> Result<(), Refused> {
        let closed = queued.job.tenant.starts_with(&*self.0.prefix);
        if closed { Err(Refused(Events::EXTERNAL)) } else { Ok(()) }
    }
}

impl Order for Closed {
    fn name(&self) -> &'static str {
        "closed"
    }

    fn compare(&self, a: Queued<'_>, b: Queued<'_>) -> Ordering {
        a.job.task_count().cmp(&b.job.task_count())
    }
}

#[test]
fn plugins_around_the_decision_are_named_in_files() {
    let make = |named: &Named, _: &Kinds| Ok(Closed(named.clone()));
    let both =
        |profile: Profile, closed: Closed| profile.with_order(closed.clone()).with_admit(closed);
    let order = Plugin::around(Point::Order, "shortest", make, Profile::with_order);
    let registry = Registry::built_in().with(Plugin::around(Point::Admit, "closed", make, both));
    let registry = registry.unwrap().with(order).unwrap();
    let file = "[[profile]]\nname = 'default'\nbase = 'batch'\n\
                [[profile.admit]]\nplugin = 'closed'\nargs = { prefix = 'shop' }\n";
    let schema = schema(&registry);
    assert!(allows(&schema, &schema, &as_json(file).unwrap()));
    let profile = Profiles::parse(file, &registry).unwrap();
    let profile = profile.get("default").unwrap().bind(&Kinds::standard()).unwrap();
    let cell = small::cell(&[8]);
    let closed = Job { tenant: "shop-1".into(), ..small::job("closed", 1, 1) };
    let (closed, open) =
        (small::submit(&cell, closed), small::submit(&cell, small::job("j", 1, 1)));
    let mut scheduler = Scheduler::new(&cell, profile, Settings::new("default")).unwrap();
    small::run(&mut scheduler, &cell, 0);
    assert_eq!((small::placed(&cell, closed), small::placed(&cell, open)), (0, 1));
    assert_eq!(scheduler.queue().gated(), [closed]);

    let error = |file: String| Profiles::parse(&file, &registry).unwrap_err().to_string();
    let order = "[[profile.order]]\nplugin = 'shortest'\nargs = { prefix = '' }\n";
    let twice = error(format!("{file}{order}{order}"));
    assert!(twice.contains("11:10") && twice.contains("is already named in line 8"), "{twice}");
    let elsewhere = error(format!("{file}[[profile.permit]]\nplugin = 'closed'\n"));
    let expected = "\"closed\" is not a permit but a plugin of admit: list it under \
         [[profile.admit]]";
    assert!(elsewhere.ends_with(expected), "{elsewhere}");
    let nothing = error(format!("{file}[[profile.permit]]\nplugin = 'hold'\n"));
    assert!(
        nothing.ends_with("there is no permit \"hold\"; the known ones are: none"),
        "{nothing}"
    );
}

#[test]
fn a_queue_has_one_order() {
    let make = |named: &Named, _: &Kinds| Ok(Closed(named.clone()));
    let order = |name: &str| Plugin::around(Point::Order, name, make, Profile::with_order);
    let registry = Registry::built_in().with(order("one")).unwrap().with(order("two")).unwrap();
    let list = |name| format!("[[profile.order]]\nplugin = '{name}'\nargs = {{ prefix = '' }}\n");
    let file = format!("[[profile]]\nname = 'p'\nbase = 'batch'\n{}{}", list("one"), list("two"));
    let error = Profiles::parse(&file, &registry).unwrap_err().to_string();
    let expected = "8:10: profile[0].order[1].plugin: a profile can have only one order, and line 5 \
         already gives \"one\": leave out one of them";
    assert_eq!(error, expected);
    let schema = schema(&registry);
    assert!(!allows(&schema, &schema, &as_json(&file).unwrap()));
}

/// Checks that a profile with this plugin and these arguments is rejected, with an error about this argument.
fn check_refused((point, plugin): (&str, &str), arguments: &str, (field, why): (&str, &str)) {
    let file = format!(
        "[[profile]]\nname = 'p'\nbase = 'empty'\n[[profile.{point}]]\nplugin = '{plugin}'\n\
         args = {{ {arguments} }}\n"
    );
    let profiles = Profiles::parse(&file, &Registry::built_in());
    let checked = profiles.and_then(|profiles| profiles.check(&Kinds::standard()));
    let error = checked.unwrap_err().to_string();
    assert!(error.starts_with("6:"), "{error}");
    let expected = format!(": profile[0].{point}[0].args.{field}: {why}");
    assert!(error.contains(&expected), "{error}, not {expected}");
}

#[test]
fn arguments_that_make_no_sense_are_refused() {
    let affinity = ("filter", "node_affinity");
    let label = |operator: &str, values: &str| {
        format!("required = [{{ labels = [{{ key = 'k', operator = '{operator}', {values} }}] }}]")
    };
    let at = "required[0].labels";
    for operator in ["in", "not_in"] {
        check_refused(
            affinity,
            &label(operator, "values = []"),
            (at, "has an invalid entry [0]: values: must have at least one"),
        );
    }
    for values in ["values = []", "values = ['x']", "values = ['1', '2']"] {
        let why = "has an invalid entry [0]: values: must be one whole number";
        check_refused(affinity, &label("gt", values), (at, why));
        check_refused(affinity, &label("lt", values), (at, why));
    }
    for operator in ["exists", "does_not_exist"] {
        let why = "has an invalid entry [0]: values: must be empty for the operators `exists` and \
             `does_not_exist`";
        check_refused(affinity, &label(operator, "values = ['x']"), (at, why));
    }
    let empty = label("exists", "values = []").replace("'k'", "''");
    check_refused(affinity, &empty, (at, "has an invalid entry [0]: key: must not be empty"));
    // Each of the two points accepts only the arguments that it uses.
    check_refused(affinity, "preferred = []", ("preferred", "unknown field"));
    check_refused(("score", "node_affinity"), "required = []", ("required", "unknown field"));
    for (point, has, lacks) in
        [("filter", "present", "absent"), ("score", "prefer_present", "prefer_absent")]
    {
        let both = format!("{has} = ['a', 'b'], {lacks} = ['c', 'b']");
        let why = format!("the label \"b\" is also in {has}");
        check_refused((point, "node_label"), &both, (&format!("{lacks}[1]"), &why));
        let empty = format!("{has} = ['']");
        check_refused((point, "node_label"), &empty, (has, "contains an empty key"));
    }
    check_refused(("score", "node_prefer_avoid"), "label = ''", ("label", "is empty"));
    check_refused(("score", "selector_spread"), "zone = ''", ("zone", "is empty"));
    let balance = ("score", "balanced_allocation");
    check_refused(balance, "kinds = []", ("kinds", "names no kind"));
    let twice = ("kinds", "the kind \"cpu\" is named twice");
    check_refused(balance, "kinds = ['cpu', 'memory', 'cpu']", twice);
    check_refused(
        ("post_filter", "default_preemption"),
        "budgets = [{ tenant = 't', labels = { a = 'b' }, min_available = '101%' }]",
        ("budgets[0].min_available", "is \"101%\": a percentage must be 0% to 100%"),
    );
}

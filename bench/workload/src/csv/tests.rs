//! Tests of the CSV reader through its public API.

use super::{Tables, forms, load, open_all};
use crate::stream::{Window, whole};
use crate::testing::{folder, message};
use crate::{LoadError, RunTime, Workload};
use omega_core::{
    Amounts, DeviceRequest, JobKind, KindId, Operator, Precedence, Protocol, Requirement, TaskRule,
    TopologyLevel, WhenUnsatisfiable,
};

const MACHINES: &str = "name,cpu,memory\nm,4,16Gi\n";
const JOBS: &str = "name,count,cpu,memory\nj,1,1,1Gi\n";

fn read(machines: &str, jobs: &str) -> (tempfile::TempDir, Result<Workload, LoadError>) {
    let dir = folder(&[("machines.csv", machines), ("jobs.csv", jobs)]);
    let result = load(&dir.path().join("machines.csv"), &dir.path().join("jobs.csv"));
    (dir, result)
}

#[test]
fn the_required_columns_are_enough() {
    let workload = read(MACHINES, JOBS).1.unwrap();
    assert_eq!(workload.name, "jobs");
    assert_eq!(&*workload.machines[0].name, "m");
    assert_eq!(workload.machines[0].capacity, Amounts::new([4000, 16 << 30]));
    let arrival = &workload.arrivals[0];
    assert_eq!((arrival.at_ms, &arrival.run), (0, &RunTime::Forever));
    assert_eq!((arrival.job.kind, &*arrival.job.scheduler), (JobKind::Service, "service"));
    assert_eq!(arrival.job.groups[0].request, Amounts::new([1000, 1 << 30]));
}

#[test]
fn every_column_of_machines_arrives() {
    let machines = "count,name,cpu,memory,disk,gpu,zone,rack,labels,taints,resource:fpga\n\
        2,a,0.5,1.5k,2T,8,z1,r1,os=linux;tier=,gpu=yes:NoSchedule;old:NoExecute,3\n\
        ,b,1,100,,,,,,,\n";
    let workload = read(machines, JOBS).1.unwrap();
    let names: Vec<&str> = workload.machines.iter().map(|m| &*m.name).collect();
    assert_eq!(names, ["a-0", "a-1", "b"]);
    let machine = &workload.machines[1];
    let amounts = Amounts::new([500, 1500, 2_000_000_000_000, 8000, 3]);
    assert_eq!((&machine.capacity, machine.devices), (&amounts, 8));
    let labels: Vec<String> = machine.labels.iter().map(|(k, v)| format!("{k}={v}")).collect();
    assert_eq!(labels, ["os=linux", "rack=r1", "tier=", "zone=z1"]);
    assert_eq!((machine.taints.len(), &*machine.taints[0].value), (2, "yes"));
    assert_eq!(workload.kinds.by_name("fpga"), Some(KindId(4)));
    assert_eq!(workload.machines[2].capacity, Amounts::new([1000, 100]));
}

#[test]
fn bytes_are_written_as_on_the_command_line() {
    for (text, bytes) in
        [("5GiB", 5 << 30), ("5Gi", 5 << 30), ("5GB", 5_000_000_000), ("5 k", 5000)]
    {
        let workload = read(&format!("name,cpu,memory\na,1,{text}\n"), JOBS).1.unwrap();
        assert_eq!(workload.machines[0].capacity.get(KindId::MEMORY), bytes, "{text}");
    }
}

#[test]
fn every_column_of_jobs_arrives() {
    let jobs = "name,count,cpu,memory,disk,gpu,gpu_share,arrival_s,run_s,kind,precedence,tenant,\
        gang,labels,require,tolerate,spread,anti_affinity,ports,resource:fpga\n\
        late,9,0.0001,0.1Ki,1,2,250,1.5,60,service,-3,ann,4,app=web,\
        os=linux;zone in a|b;n>5;old absent,gpu=yes:NoSchedule;old;*,rack:2;zone:1:soft,machine,\
        8080;9090/udp,1\n\
        early,3,1,1,,,,,0.25,,,,all,,,,,,,\n";
    let workload = read(MACHINES, jobs).1.unwrap();
    let [early, late] = &workload.arrivals[..] else { panic!("{:?}", workload.arrivals) };
    assert_eq!((early.job.kind, early.job.gang_min), (JobKind::Batch, Some(3)));
    assert_eq!(early.run, RunTime::Same(250));

    assert_eq!((late.at_ms, late.run.of(8)), (1500, Some(60_000)));
    let job = &late.job;
    assert_eq!(
        (job.kind, job.precedence, job.gang_min),
        (JobKind::Service, Precedence(-3), Some(4))
    );
    let group = &job.groups[0];
    assert_eq!(group.request, Amounts::new([1, 103, 1, 500, 1]));
    assert_eq!(group.devices, Some(DeviceRequest { count: 2, milli_each: 250 }));
    assert_eq!(group.labels.get("app").map(|value| &**value), Some("web"));
    let required = &group.rules.affinity.required.as_ref().unwrap()[0].labels;
    let operators: Vec<Operator> = required.iter().map(|r| r.operator).collect();
    assert_eq!(operators, [Operator::In, Operator::In, Operator::Gt, Operator::DoesNotExist]);
    assert_eq!(required[1].values.len(), 2);
    assert_eq!(group.rules.tolerations.len(), 3);
    let [TaskRule::Spread(rack), TaskRule::Spread(zone), TaskRule::AntiAffinity { level, .. }] =
        &group.rules.tasks[..]
    else {
        panic!("{:?}", group.rules.tasks)
    };
    assert_eq!((rack.skew_max, rack.when), (2, WhenUnsatisfiable::DoNotSchedule));
    assert_eq!(zone.when, WhenUnsatisfiable::ScheduleAnyway);
    assert_eq!(*level, TopologyLevel::Machine);
    assert_eq!(group.rules.ports[1].protocol, Protocol::Udp);
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn faults_of_machines_are_told_in_one_line() {
    let cases = [
        ("", ": the file is empty: its first line must be a header"),
        ("name,cpu\na,1\n", ":1: memory: the column is missing"),
        (
            "name,cpu,memory,cpus\n",
            ":1: cpus: there is no such column; the columns are: name, cpu, memory, disk, gpu, \
             count, \
             zone, rack, labels, taints, resource:NAME",
        ),
        ("name,cpu,memory,\n", ":1: a column has no name"),
        (
            "name,cpu,memory,resource:\n",
            ":1: the header has a column \"resource:\" without the name of a resource kind: add the \
             name, as in resource:fpga",
        ),
        ("name,cpu,memory,resource:gpu\n", ":1: resource:gpu: gpu has a column of its own"),
        ("name,cpu,memory\n", ": the table has no machines: give it a row for each machine"),
        (
            "name;cpu;memory\na;1;1\n",
            ":1: the columns are separated by semicolons: separate them by commas",
        ),
        (
            "name\tcpu\tmemory\na\t1\t1\n",
            ":1: the columns are separated by tabs: separate them by commas",
        ),
        (
            "name,cpu,memory\na,8000m,1\n",
            ":2: cpu: \"8000m\" has a unit: write cores without one, as in 8 or 0.5",
        ),
        (
            "name,cpu,memory\na,8 cores,1\n",
            ":2: cpu: \"8 cores\" has a unit: write cores without one, as in 8 or 0.5",
        ),
        (
            "name,cpu,memory,count\na,1,1,0\n",
            ":2: count: is 0: write at least 1, or remove the row",
        ),
        (
            "name,cpu,memory,labels\na,1,1,\"gen=7,ssd=1\"\n",
            ":2: labels: \"gen=7,ssd=1\" has ',' in a label's value, which must not contain '=', ',' or '|': \
             separate items by ';', as in KEY=VALUE;KEY=VALUE",
        ),
        (
            "name,cpu,memory\na,1,1\na,1,1\n",
            ":3: name: \"a\" is already the name of the machine \
             in line 2: give each machine its own name",
        ),
        (
            "name,cpu,memory,count\na-1,1,1,\na,1,1,2\n",
            ":3: name: \"a-1\" is already the name of the machine in line 2: give each machine its own name",
        ),
        ("name,cpu,memory\na,x,1\n", ":2: cpu: \"x\" is not a number"),
        ("name,cpu,memory\na,1,\n", ":2: memory: is empty"),
        (
            "name,cpu,memory\na,1,5Q\n",
            ":2: memory: \"5Q\" has an unknown unit: write an amount such as 4, 500m, 16GiB or 2TB",
        ),
        ("name,cpu,memory\na,1,-5Gi\n", ":2: memory: \"-5Gi\" is negative"),
        (
            "name,cpu,memory\na,1,2000Ti\n",
            ":2: memory: \"2000Ti\" is too large: at most 2^50 bytes are allowed",
        ),
        ("name,cpu,memory,gpu\na,1,1,64\n", ":2: gpu: \"64\" is too large: must be at most 32"),
        (
            "name,cpu,memory,labels\na,1,1,x\n",
            ":2: labels: \"x\" is not a label: it must be \
             KEY=VALUE",
        ),
        ("name,cpu,memory,labels\na,1,1,x=1;x=2\n", ":2: labels: the label \"x\" is given twice"),
        (
            "name,cpu,memory,zone,labels\na,1,1,z,zone=y\n",
            ":2: labels: \"zone\" is also given in a column of its own: leave it out here",
        ),
        (
            "name,cpu,memory,taints\na,1,1,k=v:Never\n",
            ":2: taints: \"k=v:Never\" is not a taint: it must be KEY:EFFECT or KEY=VALUE:EFFECT, \
             with the effect NoSchedule, PreferNoSchedule or NoExecute",
        ),
        ("name,cpu,memory\n,1,1\n", ":2: name: is empty: must have 1 to 512 bytes"),
    ];
    for (machines, expected) in cases {
        let (dir, result) = read(machines, JOBS);
        assert_eq!(message(dir.path(), result), format!("machines.csv{expected}"));
    }
}

/// The error for an operator character in a value of a requirement.
macro_rules! in_a_value {
    ($text:literal, $sign:literal) => {
        concat!(
            "\"",
            $text,
            "\" has '",
            $sign,
            "' in a value, which must not contain '=', ',' or '|': write KEY=VALUE, or KEY in A|B for several \
             values, and separate requirements by ';'"
        )
    };
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn faults_of_jobs_are_told_in_one_line() {
    let cases = [
        (
            "count",
            "0",
            "is 0: a job must have at least one task: write at least 1, or remove the row",
        ),
        ("count", "2000000", "\"2000000\" is too large: must be at most 1048576"),
        (
            "gpu_share",
            "500",
            "is given, but the row has no gpu: fill in the column gpu too, or \
             leave the column gpu_share empty",
        ),
        ("run_s", "soon", "\"soon\" must be a number of seconds, such as 90"),
        ("arrival_s", "1h", "\"1h\" must be a number of seconds, such as 90"),
        ("arrival_s", "-1", "\"-1\" is negative"),
        ("arrival_s", "1e18", "\"1e18\" is too large: at most 2^50 milliseconds are allowed"),
        ("kind", "cron", "\"cron\" is not a kind of job: it must be service or batch"),
        ("precedence", "high", "\"high\" must be a whole number from -2147483648 to 2147483647"),
        (
            "gang",
            "2",
            "\"2\" is not a minimum number of tasks of the gang: give `all`, or a number from 1 to 1",
        ),
        (
            "require",
            "ssd",
            "\"ssd\" is not a requirement: it must be such as KEY=VALUE, KEY in \
             A|B, KEY>NUMBER or KEY exists",
        ),
        ("require", "a=1;;b=2", "\"a=1;;b=2\" has an empty item"),
        ("require", "zone==a", in_a_value!("zone==a", "=")),
        ("require", "zone == a", in_a_value!("zone == a", "=")),
        ("require", "zone=a | b", in_a_value!("zone=a | b", "|")),
        ("require", "zone in a|b gen=7", in_a_value!("zone in a|b gen=7", "=")),
        (
            "require",
            "zone!=",
            "\"zone!=\" has an empty value: write a value, `KEY exists` or `KEY absent`",
        ),
        (
            "require",
            "zone in a|",
            "\"zone in a|\" has an empty value: write a value, `KEY exists` or `KEY absent`",
        ),
        ("require", "n>many", "\"n>many\" must compare with a whole number, such as KEY>5"),
        (
            "tolerate",
            "k:Never",
            "\"k:Never\" is not a toleration: its effect must be NoSchedule, \
             PreferNoSchedule or NoExecute, as in KEY=VALUE:NoSchedule",
        ),
        (
            "spread",
            "rack",
            "\"rack\" is not a spread: it must be LEVEL:SKEW, with a skew of at \
             least 1",
        ),
        (
            "spread",
            "rack:0",
            "\"rack:0\" is not a spread: it must be LEVEL:SKEW, with a skew of \
             at least 1",
        ),
        ("ports", "0", "\"0\" is not a port: it must be such as 8080 or 9090/udp"),
        ("ports", "80/http", "\"80/http\" is not a port: it must be such as 8080 or 9090/udp"),
        ("ports", "80;80/tcp", "\"80;80/tcp\" has the same port twice"),
        ("resource:fpga", "0.5", "\"0.5\" is not a whole number"),
    ];
    for (column, field, expected) in cases {
        let jobs = match column {
            "count" => format!("name,cpu,memory,count\nj,1,1,{field}\n"),
            _ => format!("name,count,cpu,memory,{column}\nj,1,1,1,{field}\n"),
        };
        let (dir, result) = read(MACHINES, &jobs);
        assert_eq!(message(dir.path(), result), format!("jobs.csv:2: {column}: {expected}"));
    }
    let (dir, result) = read(MACHINES, &format!("{JOBS}j,1,1,1\n"));
    let expected = "jobs.csv:3: name: \"j\" is already the name of the job in line 2: give each job its own name";
    assert_eq!(message(dir.path(), result), expected);
    let (dir, result) = read(MACHINES, "name,count,cpu,memory,gpu,gpu_share\nj,1,1,1,1,1001\n");
    let expected = "jobs.csv:2: gpu_share: \"1001\" must be 1 to 1000 thousandths of a device";
    assert_eq!(message(dir.path(), result), expected);
}

#[test]
fn there_are_at_most_sixteen_kinds() {
    let names: Vec<String> = (0..13).map(|i| format!("resource:r{i}")).collect();
    let header = format!("name,cpu,memory,{}\n", names.join(","));
    let (dir, result) = read(&header, JOBS);
    let expected = "machines.csv:1: resource:r12: 17 resource kinds are too many: at most 16 are \
         allowed";
    assert_eq!(message(dir.path(), result), expected);
}

/// Reads three tables; the message of an error names files without their folder.
fn read_placed(placements: &str) -> Result<Vec<Vec<(u32, u32)>>, String> {
    let jobs = "name,count,cpu,memory,arrival_s\nj,3,1,1Gi,\nk,1,1,1Gi,\nlate,1,1,1Gi,5\n";
    let workload = read_tables("name,cpu,memory,count\nm,4,16Gi,2\nn,4,16Gi,\n", jobs, placements)?;
    Ok(workload.arrivals.into_iter().map(|arrival| arrival.placed).collect())
}

fn read_tables(machines: &str, jobs: &str, placements: &str) -> Result<Workload, String> {
    let dir =
        folder(&[("machines.csv", machines), ("jobs.csv", jobs), ("placements.csv", placements)]);
    let [machines, jobs, placements] =
        ["machines.csv", "jobs.csv", "placements.csv"].map(|name| dir.path().join(name));
    let tables = Tables { machines: &machines, jobs: &jobs, placements: Some(&placements) };
    let workload = open_all(&tables, Window::Bounded).and_then(|mut stream| whole(&mut stream));
    match workload {
        Ok(workload) => Ok(workload),
        error => Err(message(dir.path(), error)),
    }
}

#[test]
fn requirements_compare_with_bounds_that_are_included_or_not() {
    let requirement = |text: &str| {
        let Requirement { key, operator, values } = forms::requirement(text).unwrap();
        (key.to_string(), operator, values[0].to_string())
    };
    let gen_5 = |operator, value: &str| ("gen".to_owned(), operator, value.to_owned());
    assert_eq!(requirement("gen>5"), gen_5(Operator::Gt, "5"));
    assert_eq!(requirement("gen>=5"), gen_5(Operator::Gt, "4"));
    assert_eq!(requirement("gen < 5"), gen_5(Operator::Lt, "5"));
    assert_eq!(requirement("gen <= 5"), gen_5(Operator::Lt, "6"));
    let error = forms::requirement("gen>=new").unwrap_err();
    assert_eq!(error, "\"gen>=new\" must compare with a whole number, such as KEY>5");
    assert_eq!(requirement("gen>=-9223372036854775807").2, i64::MIN.to_string());
    assert_eq!(requirement("gen<=9223372036854775806").2, i64::MAX.to_string());
    for text in ["gen>=-9223372036854775808", "gen<=9223372036854775807"] {
        let error = forms::requirement(text).unwrap_err();
        assert_eq!(error, format!("{text:?} holds for all whole numbers: write `KEY exists`"));
    }
}

#[test]
fn a_requirement_whose_key_has_an_operator_is_refused() {
    let cases =
        [("pool=web exists", '='), ("pool<3 absent", '<'), ("a|b=c", '|'), ("a!b in c", '!')];
    for (text, sign) in cases {
        let error = forms::requirement(text).unwrap_err();
        assert!(error.starts_with(&format!("{text:?} has {sign:?} in a key, ")), "{error}");
    }
}

#[test]
fn arrivals_in_seconds_since_1970_are_counted_from_the_first() {
    let read = |times: [&str; 2]| {
        let rows = format!("a,1,1,1Gi,{}\nb,1,1,1Gi,{}\n", times[0], times[1]);
        let jobs = format!("name,count,cpu,memory,arrival_s\n{rows}");
        let workload = read(MACHINES, &jobs).1.unwrap();
        let at_ms: Vec<u64> = workload.arrivals.iter().map(|arrival| arrival.at_ms).collect();
        (at_ms, workload.notes)
    };
    let note = "arrivals are seconds since 1970, and are counted from the first, 1700000000.5";
    assert_eq!(read(["1700000060", "1700000000.5"]), (vec![0, 59_500], vec![note.to_owned()]));
    assert_eq!(read(["999999999", "999999999"]).0, [999_999_999_000; 2]);
}

#[test]
fn arrivals_from_the_start_and_since_1970_do_not_mix() {
    for early in ["5", ""] {
        let rows = format!("a,1,1,1Gi,1700000000\nb,1,1,1Gi,{early}\n");
        let (dir, result) = read(MACHINES, &format!("name,count,cpu,memory,arrival_s\n{rows}"));
        let expected = "jobs.csv:2: arrival_s: 1700000000 is in seconds since 1970, but another job \
             arrives in seconds from the start (0 if the field is empty): count all arrivals from \
             the same time";
        assert_eq!(message(dir.path(), result), expected);
    }
}

#[test]
fn placements_of_jobs_that_arrive_first_since_1970_are_at_the_start() {
    let jobs = "name,count,cpu,memory,arrival_s\nb,1,1,1Gi,1700000060\na,2,1,1Gi,1700000000\n";
    let read = |placements| read_tables("name,cpu,memory\nm,4,16Gi\n", jobs, placements);
    let workload = read("job,machine\na,m\n").unwrap();
    let placed: Vec<_> = workload.arrivals.iter().map(|one| (one.at_ms, &one.placed[..])).collect();
    assert_eq!(placed, [(0, &[(0, 0)][..]), (60_000, &[][..])]);
    assert_eq!(
        read("job,machine\nb,m\n").unwrap_err(),
        "placements.csv:2: job: \"b\" arrives 60 s after the start, but only jobs that arrive at \
         the start can have placements: change its arrival_s, or remove this row"
    );
}

#[test]
fn placements_that_a_scheduler_would_not_choose_are_told() {
    let notes = |jobs: &str, placements: &str| {
        let machines = "name,cpu,memory,zone\na,4,16Gi,x\nb,4,16Gi,y\n";
        let placements = format!("job,machine\n{placements}");
        crate::misplaced::notes(&read_tables(machines, jobs, &placements).unwrap())
    };
    let apart = "name,count,cpu,memory,anti_affinity,require\nw,3,1,1Gi,machine,\n";
    assert!(notes(apart, "w,a\nw,b\n").is_empty());
    assert_eq!(
        notes(apart, "w,a\nw,b\nw,b\n"),
        [
            "1 running task is on a machine of another task against the job's anti-affinity, the first w/2 on b"
        ]
    );
    let zone = "name,count,cpu,memory,require\nw,3,1,1Gi,zone=x\n";
    assert_eq!(
        notes(zone, "w,b\nw,a\nw,b\n"),
        [
            "2 running tasks are on a machine that the rules of their job exclude, the first w/0 on b"
        ]
    );
    let large = "name,count,cpu,memory\nw,2,3,1Gi\n";
    assert_eq!(
        notes(large, "w,b\nw,b\n"),
        ["1 machine cannot hold all tasks that run there, the first b (cpu 6 of 4)"]
    );
}

#[test]
fn placements_name_jobs_and_machines() {
    let placed = |text| read_placed(text).unwrap();
    assert_eq!(placed("job,machine\n"), [vec![], vec![], vec![]]);
    assert_eq!(
        placed("machine,job,task\nn,j,\nm-1,j,0\nm-0,k,0\n"),
        [vec![(0, 1), (1, 2)], vec![(0, 0)], vec![]]
    );
}

#[test]
fn faults_of_placements_are_told_in_one_line() {
    for (text, expected) in [
        ("job\nj\n", ":1: machine: the column is missing"),
        (
            "job,machine,n\nj,n,1\n",
            ":1: n: there is no such column; the columns are: job, \
             machine, task",
        ),
        (
            "job,machine\nj,m\n",
            ":2: machine: \"m\" is not in the table of machines: correct this row or that table",
        ),
        (
            "job,machine\nk,n\nx,n\n",
            ":3: job: \"x\" is not in the table of jobs: correct this row \
             or that table",
        ),
        ("job,machine\n,n\n", ":2: job: is empty"),
        (
            "job,machine,task\nj,n,3\n",
            ":2: task: 3 must be below 3, the number of tasks of job \
             \"j\"",
        ),
        (
            "job,machine,task\nj,n,1\nj,n,1\n",
            ":3: task: task 1 of job \"j\" has two placements: remove one of them",
        ),
        (
            "job,machine\nk,n\nk,n\n",
            ":3: job: \"k\" has 1 task, but more placements: remove this row",
        ),
        (
            "job,machine\nlate,n\n",
            ":2: job: \"late\" arrives 5 s after the start, but only jobs that arrive at the \
             start can have placements: change its arrival_s, or remove this row",
        ),
    ] {
        assert_eq!(read_placed(text).unwrap_err(), format!("placements.csv{expected}"), "{text}");
    }
}

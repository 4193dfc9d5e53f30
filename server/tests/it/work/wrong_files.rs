//! Units, programs and numbers of jobs in files and flags: errors with the line of the field and the remedy.

use crate::kit::cell::Served;

#[test]
fn units_programs_and_numbers_of_jobs_are_checked() {
    let two = "[[job]]\nname = \"a\"\ngroup = [{}]\n[[job]]\nname = \"b\"\ngroup = [{}]\n";
    let cell = Served::new(&[
        ("time.toml", "name = \"j\"\nrun_time = 30\n[[group]]\ncount = 1\n"),
        ("two.toml", two),
        ("program.toml", "name = \"j\"\n[[group]]\nrun = { args = [\"x\"] }\n"),
        ("kind.toml", "name = \"j\"\n[[group]]\nrequest.fpga = 1\n"),
        ("small.toml", "[[machine]]\nname = \"m\"\ncapacity = { memory = 64 }\n"),
        ("web.hcl", "job \"web\" {\n  datacenters = [\"dc1\"]\n}\n"),
        (
            "skew.toml",
            "name = \"j\"\n[[group]]\nrules = [{ spread = { level = \"rack\", skew_max = 0 } }]\n",
        ),
        ("one.toml", "[[job]]\nname = \"one\"\ngroup = [{}]\n"),
    ]);
    let in_bytes = "64 has no unit, so it is in bytes: write 64GiB or 64B";
    let cases = [
        ("job submit -f time.toml", "run_time: 30 has no unit: write a time such as \"30s\""),
        (
            "job submit -f two.toml",
            "two.toml: job: has 2 jobs, and `omega job submit` submits one: run `omega job apply -f \
             two.toml`",
        ),
        ("job submit -f program.toml", "program.toml:3: group[0].run.command: is missing"),
        ("job submit -f kind.toml", "kind.toml:3: group[0].request.fpga: the cell has no resource"),
        ("job submit -f web.hcl", "this looks like HCL: job files must be TOML or JSON"),
        ("job submit -f skew.toml", "skew_max: must be a whole number from 1, not 0"),
        ("machine add -f small.toml", "small.toml:3: machine[0].capacity.memory: 64 has no unit"),
        ("machine add m --memory 64", in_bytes),
        ("agent --simulate 1 --memory 64", in_bytes),
        ("job submit x --memory 1gb", "\"1gb\" has an unknown unit: write 1GB or 1GiB"),
    ];
    for (line, expected) in cases {
        let output = cell.fails(2, line);
        assert!(output.contains(expected), "{line}: {output}");
    }
    assert_eq!(cell.ok("job submit -f one.toml"), "job one is submitted: 1 task\n");
}

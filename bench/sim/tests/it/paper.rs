//! The paper's figures by the command line: its output, and its errors for bad arguments.

use crate::support::{omega_sim, text};
use omega_workload::public_data;

#[test]
fn a_figure_leaves_a_report_and_its_plots() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("made/below");
    let said = omega_sim(&["paper", "fig8", "--out", out.to_str().unwrap()]);
    let said_text = text(&said.stdout);
    assert!(said.status.success(), "{said_text}{}", text(&said.stderr));
    assert_eq!(said_text.matches("  holds  ").count(), 2, "{said_text}");
    let html = std::fs::read_to_string(out.join("report.html")).unwrap();
    assert!(html.contains("Figure 8: more batch jobs") && html.matches("<svg").count() == 2);
    let markdown = std::fs::read_to_string(out.join("report.md")).unwrap();
    for name in ["fig8-busyness", "fig8-wait"] {
        assert!(markdown.contains(&format!("(plots/{name}.svg)")));
        let svg = std::fs::read_to_string(out.join(format!("plots/{name}.svg"))).unwrap();
        assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n"));
        let png = std::fs::read(out.join(format!("plots/{name}.png"))).unwrap();
        assert!(png.starts_with(b"\x89PNG"));
    }
}

#[test]
#[ignore = "a week of Google's trace takes minutes: .ci/long runs it"]
fn three_schedulers_of_a_real_week_saturate_three_times_later() {
    let Some(trace) = public_data("google2011") else { return };
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().to_str().unwrap();
    let said = omega_sim(&["paper", "fig13", "--trace", trace.to_str().unwrap(), "--out", out]);
    let printed = text(&said.stdout);
    assert!(said.status.success(), "{printed}{}", text(&said.stderr));
    assert_eq!(printed.matches("  holds  ").count(), 3, "{printed}");
    assert!(dir.path().join("plots/fig13-wait.svg").exists());
}

#[test]
fn bad_arguments_are_told() {
    let said = omega_sim(&["paper", "fig99"]);
    let why = text(&said.stderr);
    assert!(
        why.contains(
            "the figures are: all, fig5, fig6, fig7, fig8, fig9, fig10, fig13, fig14, fig15, fig16"
        ),
        "{why}"
    );
    let said = omega_sim(&["paper", "fig12"]);
    assert_eq!(said.status.code(), Some(2));
    let why = text(&said.stderr);
    assert!(
        why.contains("omega-sim cannot reproduce this figure: the figure needs a trace"),
        "{why}"
    );
    let said = omega_sim(&["paper", "fig13"]);
    let why = "omega-sim: fig13 needs --trace DIR, the folder of Google's trace of May 2011\n";
    assert_eq!((text(&said.stderr).as_str(), said.status.code()), (why, Some(2)));
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("none");
    let said = omega_sim(&["paper", "fig8", "--data", missing.to_str().unwrap()]);
    assert_eq!(said.status.code(), Some(2));
    assert!(text(&said.stderr).contains("M_batch.csv.gz"));
}

#[test]
fn a_folder_that_cannot_be_made_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a-file");
    std::fs::write(&file, "").unwrap();
    let said = omega_sim(&["paper", "fig8", "--out", file.to_str().unwrap()]);
    assert_eq!(said.status.code(), Some(2));
    let why = text(&said.stderr);
    assert!(why.contains("a-file/report.html: cannot be written"), "{why}");
}

//! `omega-kube`: a scheduler for a live Kubernetes API server.

fn main() {}

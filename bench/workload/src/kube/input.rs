//! Parsing of a cluster file into nodes, pods, namespaces and disruption budgets.
//!
//! A file has one or several documents, in sequence or in an array; each is a `List` of items or one object. An item is
//! parsed in place in the text, after its kind was read. So an error can name the line and the path, and a large file
//! is never copied.

use super::api::{
    CsiNode, DisruptionBudget, Metadata, Namespace, Node, PersistentVolume, PersistentVolumeClaim,
    Pod, PriorityClass, StorageClass,
};
use crate::LoadError;
use crate::text::compressed::{self, describe};
use crate::text::json_path::json_path;
use omega_core::misread::in_plain_words;
use omega_core::text::{TextFlaw, check_name, check_value};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::path::Path;

/// The objects of a cluster file, in the order of the file.
#[derive(Debug, Default)]
pub struct Input {
    pub(super) nodes: Vec<(Place, Node)>,
    pub(super) pods: Vec<(Place, Pod)>,
    pub(super) namespaces: Vec<Namespace>,
    pub(super) volumes: Vec<PersistentVolume>,
    pub(super) claims: Vec<PersistentVolumeClaim>,
    pub(super) classes: Vec<StorageClass>,
    pub(super) csi_nodes: Vec<CsiNode>,
    pub(super) budgets: Vec<(Place, DisruptionBudget)>,
    pub(super) priorities: Vec<PriorityClass>,
    /// The kinds and names of storage objects.
    stored: BTreeSet<(&'static str, String)>,
    /// Number of objects of each kind that is not read.
    pub(super) others: BTreeMap<String, u64>,
}

impl Input {
    /// Records the name of a storage object.
    ///
    /// # Errors
    /// If there already is an object of this kind and name.
    fn store(&mut self, kind: &'static str, name: String, place: &Place) -> Result<(), Fault> {
        let message = format!("the {kind} {name:?} appears twice: remove one of the two");
        if self.stored.insert((kind, name)) {
            Ok(())
        } else {
            Err(place.fault("metadata.name", message))
        }
    }

    /// An input of these objects, for tests; the first node and pod are at `nodes[0]` and `pods[0]`.
    pub fn of(nodes: Vec<Node>, pods: Vec<Pod>, namespaces: Vec<Namespace>) -> Input {
        let place = |list: &str, i: usize| Place { line: 1, path: format!("{list}[{i}]") };
        let nodes = nodes.into_iter().enumerate().map(|(i, node)| (place("nodes", i), node));
        let pods = pods.into_iter().enumerate().map(|(i, pod)| (place("pods", i), pod));
        let (nodes, pods) = (nodes.collect(), pods.collect());
        Input { nodes, pods, namespaces, ..Input::default() }
    }
}

/// Location of an object in the file.
#[derive(Clone, Debug)]
pub(super) struct Place {
    /// Number of the object's first line in the file, counted from 1.
    line: u64,
    /// The path of the object, such as `items[3]`; empty if the object is a document by itself.
    path: String,
}

/// An error with its location, which becomes a [`LoadError`] when the file's name is known.
#[derive(Debug)]
pub struct Fault {
    line: Option<u64>,
    field: Option<String>,
    message: String,
}

impl Fault {
    /// An error about the file as a whole.
    pub(super) fn file(message: impl Into<String>) -> Fault {
        Fault { line: None, field: None, message: message.into() }
    }

    /// The error with the name of its file.
    pub fn of(self, file: &Path) -> LoadError {
        LoadError {
            file: file.to_owned(),
            line: self.line,
            field: self.field,
            message: self.message,
        }
    }
}

impl Place {
    /// An error about a field of the object, or about the object if the field is empty.
    pub(super) fn fault(&self, field: &str, message: impl Into<String>) -> Fault {
        let path = join(&self.path, field);
        Fault {
            line: Some(self.line),
            field: (!path.is_empty()).then_some(path),
            message: message.into(),
        }
    }
}

/// Reads the text of a file that may be compressed; `-` is standard input.
pub fn read_text(file: &Path) -> Result<String, Fault> {
    let read = match file.to_str() {
        Some("-") => compressed::read_stdin(),
        _ => compressed::read_text(file),
    };
    let text = read.map_err(|error| Fault::file(describe(&error)))?;
    Ok(match text.strip_prefix('\u{feff}') {
        Some(rest) => rest.to_owned(),
        None => text,
    })
}

/// The objects in a text.
pub(super) fn parse(text: &str) -> Result<Input, Fault> {
    if text.trim().is_empty() {
        return Err(Fault::file(format!("is empty: write it with {COMMAND}")));
    }
    let mut source = Source { text, offset: 0, line: 1 };
    let mut input = Input::default();
    let mut end = 0;
    while let Some(start) = next_document(text, end)? {
        let mut documents =
            serde_json::Deserializer::from_str(&text[start..]).into_iter::<&RawValue>();
        let Some(document) = documents.next() else { break };
        let document = document.map_err(|error| not_json(&text[..start], &error))?;
        end = start + documents.byte_offset();
        if document.get().starts_with('[') {
            let documents: Vec<&RawValue> = source.parse(document, "")?;
            for (i, document) in documents.into_iter().enumerate() {
                read_document(&mut source, &mut input, document, &format!("[{i}]"))?;
            }
        } else {
            read_document(&mut source, &mut input, document, "")?;
        }
    }
    Ok(input)
}

/// Beginnings of lines that kubectl writes in front of the output, or behind it, if the output has the standard error,
/// too. Warnings are skipped.
const WARNING: &str = "Warning: ";
const ERRORS: [&str; 4] =
    ["Error from server", "Error: ", "error: ", "Unable to connect to the server"];

/// Position of the next document from `end` on; `None` at the end of the text.
fn next_document(text: &str, end: usize) -> Result<Option<usize>, Fault> {
    let mut rest = text[end..].trim_start();
    while rest.starts_with(WARNING) {
        rest = rest.split_once('\n').map_or("", |(_, rest)| rest).trim_start();
    }
    let start = text.len() - rest.len();
    let fault =
        |message: String| Fault { line: Some(1 + newlines(&text[..start])), field: None, message };
    if ERRORS.iter().any(|error| rest.starts_with(error)) {
        let line: String =
            rest.lines().next().unwrap_or_default().chars().take(SHOWN_MAX).collect();
        return Err(fault(format!(
            "is an error of kubectl, {line:?}: resolve it, and write the file again with {COMMAND}"
        )));
    }
    // A number is valid JSON, so it is rejected later, as a document of the wrong type.
    let begins_json = |c: char| matches!(c, '{' | '[' | '"') || c.is_ascii_digit();
    match rest.chars().next() {
        None => Ok(None),
        Some(first) if end == 0 && !begins_json(first) => Err(fault(format!(
            "the file does not begin as JSON: write it with {COMMAND}, because neither YAML nor \
             tables are read"
        ))),
        Some(_) => Ok(Some(start)),
    }
}

/// The command that writes a file.
const COMMAND: &str = "`kubectl get nodes,pods -A -o json`";

/// Number of line ends in a text.
fn newlines(text: &str) -> u64 {
    text.bytes().filter(|byte| *byte == b'\n').count() as u64
}

/// A list of items, or an object with its kind.
#[derive(Deserialize)]
#[serde(expecting = "an object, the List of Nodes and Pods")]
struct Document<'a> {
    kind: Option<String>,
    #[serde(borrow, default, deserialize_with = "items")]
    items: Option<Vec<&'a RawValue>>,
    /// The reason in a `Status`, which the API server answers instead of a list.
    message: Option<serde_json::Value>,
}

/// Deserializes the items of a list; `null` is an empty list, as in the API server.
fn items<'de, D: Deserializer<'de>>(list: D) -> Result<Option<Vec<&'de RawValue>>, D::Error> {
    Option::deserialize(list).map(|items| Some(items.unwrap_or_default()))
}

/// An item's kind.
#[derive(Deserialize)]
#[serde(expecting = "an object")]
struct Head {
    kind: Option<String>,
}

/// The kinds of objects that are read; other kinds are counted.
const KINDS: [&str; 9] = [
    "Node",
    "Pod",
    "Namespace",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "StorageClass",
    "CSINode",
    "PodDisruptionBudget",
    "PriorityClass",
];

/// Whether a document of this kind is a list: of objects of any kind (`List`), or of objects of one of [`KINDS`].
fn is_list(kind: &str) -> bool {
    kind.strip_suffix("List").is_some_and(|of| of.is_empty() || KINDS.contains(&of))
}

/// Adds the objects of one document to the input.
fn read_document<'a>(
    source: &mut Source<'a>,
    input: &mut Input,
    document: &'a RawValue,
    path: &str,
) -> Result<(), Fault> {
    let head: Document<'a> = source.parse(document, path)?;
    let wrong = |found: &str, place: Place| {
        let message = format!("{found}, expected a List of Nodes and Pods");
        Err(place.fault("kind", message))
    };
    match (head.kind.as_deref(), head.items) {
        (Some("Status"), _) => {
            let why = head.message.unwrap_or_default();
            let message = format!(
                "is \"Status\", an answer of the API server instead of a list, with the message {why}: \
                 resolve it, and write the file again with {COMMAND}"
            );
            Err(source.place(document, path).fault("kind", message))
        }
        (None, _) => wrong("is missing", source.place(document, path)),
        (Some(kind), _) if KINDS.contains(&kind) => {
            read_object(source, input, document, kind, path)
        }
        (Some(kind), None) if is_list(kind) => {
            Err(source.place(document, path).fault("items", "is missing"))
        }
        (Some(kind), Some(items)) if is_list(kind) => {
            let implied = kind.strip_suffix("List").filter(|kind| !kind.is_empty());
            for (i, item) in items.into_iter().enumerate() {
                let path = join(path, &format!("items[{i}]"));
                let head: Head = source.parse(item, &path)?;
                match head.kind.as_deref().or(implied) {
                    Some(kind) => read_object(source, input, item, kind, &path)?,
                    None => return Err(source.place(item, &path).fault("kind", "is missing")),
                }
            }
            Ok(())
        }
        (Some(kind), _) => wrong(&format!("is {kind:?}"), source.place(document, path)),
    }
}

/// Adds one object to the input.
fn read_object<'a>(
    source: &mut Source<'a>,
    input: &mut Input,
    object: &'a RawValue,
    kind: &str,
    path: &str,
) -> Result<(), Fault> {
    let place = source.place(object, path);
    let named = |metadata: &Metadata| check(&place, metadata);
    match kind {
        "Node" => {
            let node: Node = source.parse(object, path)?;
            named(&node.metadata)?;
            input.nodes.push((place, node));
        }
        "Pod" => {
            let pod: Pod = source.parse(object, path)?;
            named(&pod.metadata)?;
            input.pods.push((place, pod));
        }
        "Namespace" => {
            let namespace: Namespace = source.parse(object, path)?;
            named(&namespace.metadata)?;
            input.namespaces.push(namespace);
        }
        "PersistentVolume" => {
            let volume: PersistentVolume = source.parse(object, path)?;
            named(&volume.metadata)?;
            input.store("PersistentVolume", volume.metadata.name.clone(), &place)?;
            input.volumes.push(volume);
        }
        "PersistentVolumeClaim" => {
            let claim: PersistentVolumeClaim = source.parse(object, path)?;
            named(&claim.metadata)?;
            let namespace = match claim.metadata.namespace.as_str() {
                "" => "default",
                namespace => namespace,
            };
            let name = format!("{namespace}/{}", claim.metadata.name);
            input.store("PersistentVolumeClaim", name, &place)?;
            input.claims.push(claim);
        }
        "StorageClass" => {
            let class: StorageClass = source.parse(object, path)?;
            named(&class.metadata)?;
            input.store("StorageClass", class.metadata.name.clone(), &place)?;
            input.classes.push(class);
        }
        "CSINode" => {
            let node: CsiNode = source.parse(object, path)?;
            named(&node.metadata)?;
            input.csi_nodes.push(node);
        }
        "PriorityClass" => {
            let class: PriorityClass = source.parse(object, path)?;
            named(&class.metadata)?;
            input.priorities.push(class);
        }
        "PodDisruptionBudget" => {
            let budget: DisruptionBudget = source.parse(object, path)?;
            named(&budget.metadata)?;
            input.budgets.push((place, budget));
        }
        _ => *input.others.entry(kind.to_owned()).or_default() += 1,
    }
    Ok(())
}

/// Maximum number of bytes of a name in Kubernetes. A job has the name of a namespace and that of an object, so its
/// name is not too long for a cell.
const NAME_BYTES_MAX: usize = 253;

/// Number of characters of a text that an error message contains.
const SHOWN_MAX: usize = 64;

/// Checks the names and labels of an object, because the cell would reject them later, when the object's place in the
/// file is no longer known.
fn check(place: &Place, metadata: &Metadata) -> Result<(), Fault> {
    let fault = |field: &str, text: &str, flaw: &dyn Display| {
        let shown: String = text.chars().take(SHOWN_MAX).collect();
        place.fault(field, format!("{shown:?} {flaw}"))
    };
    let name = |field: &str, text: &str| match check_value(text) {
        _ if text.len() > NAME_BYTES_MAX => {
            let bytes = text.len();
            let flaw = format!("has {bytes} bytes: at most {NAME_BYTES_MAX} are allowed");
            Err(fault(field, text, &flaw))
        }
        checked => checked.map_err(|flaw| fault(field, text, &flaw)),
    };
    if metadata.name.is_empty() {
        return Err(place.fault("metadata.name", "is missing"));
    }
    name("metadata.name", &metadata.name)?;
    name("metadata.namespace", &metadata.namespace)?;
    for (i, owner) in metadata.owners.iter().enumerate() {
        name(&format!("metadata.ownerReferences[{i}].name"), &owner.name)?;
    }
    metadata.labels.iter().try_for_each(|(key, value)| {
        let label = |text: &str, flaw: TextFlaw| fault("metadata.labels", text, &flaw);
        check_name(key).map_err(|flaw| label(key, flaw))?;
        check_value(value).map_err(|flaw| label(value, flaw))
    })
}

/// The text with its line count.
///
/// Invariant: `line` is the line of the byte at `offset`.
struct Source<'a> {
    text: &'a str,
    offset: usize,
    line: u64,
}

impl<'a> Source<'a> {
    /// Parses a part of the text.
    fn parse<T: Deserialize<'a>>(&mut self, part: &'a RawValue, path: &str) -> Result<T, Fault> {
        serde_json::from_str(part.get()).map_err(|error| {
            let mut place = self.place(part, path);
            place.line += error.line().saturating_sub(1) as u64;
            let why = in_plain_words(&without_position(&error), "an object");
            place.fault(&json_path(part.get(), &error), why)
        })
    }

    /// Returns the location of a part of the text. Parts are mostly requested in order, so lines are counted from the
    /// previous part on. For a part before the previous one, lines are counted from the start.
    fn place(&mut self, part: &RawValue, path: &str) -> Place {
        let offset = (part.get().as_ptr() as usize).saturating_sub(self.text.as_ptr() as usize);
        let bytes = self.text.as_bytes();
        let (from, line) = if offset >= self.offset { (self.offset, self.line) } else { (0, 1) };
        let passed = bytes.get(from..offset).unwrap_or_default();
        self.offset = offset;
        self.line = line + passed.iter().filter(|byte| **byte == b'\n').count() as u64;
        Place { line: self.line, path: path.to_owned() }
    }
}

/// The error for a text that is not JSON after the part `read`.
fn not_json(read: &str, error: &serde_json::Error) -> Fault {
    let in_line = read.rsplit('\n').next().map_or(0, str::len);
    let column = error.column() + if error.line() == 1 { in_line } else { 0 };
    Fault {
        line: Some(newlines(read) + error.line() as u64),
        field: Some(format!("column {column}")),
        message: format!("is not JSON: {}", without_position(error)),
    }
}

/// The error's text without its ` at line 1 column 2`, which is relative to a part of the file.
fn without_position(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let position = format!(" at line {} column {}", error.line(), error.column());
    text.strip_suffix(&position).map(str::to_owned).unwrap_or(text)
}

/// Joins two parts of a path.
fn join(path: &str, field: &str) -> String {
    match (path, field) {
        ("", field) => field.to_owned(),
        (path, "") => path.to_owned(),
        (path, field) => format!("{path}.{field}"),
    }
}

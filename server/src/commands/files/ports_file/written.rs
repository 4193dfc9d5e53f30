//! Conversion of a group's ports to the form in a file.

use super::{ANY, PortFile, PortRef, PortsFile, ProtocolFile};
use omega_core::{NamedPort, Port, Protocol, TaskGroup, Text};
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;

impl From<&TaskGroup> for PortsFile {
    fn from(group: &TaskGroup) -> PortsFile {
        let names = group.run.as_ref().map_or(&[][..], |run| &run.ports);
        let fixed = group.rules.ports.iter().map(|port| fixed(port, names));
        PortsFile(fixed.chain(group.any_ports.iter().map(any)).collect())
    }
}

/// Converts a port to the form in a file. `names` has the names of port numbers.
fn fixed(port: &Port, names: &[NamedPort]) -> PortFile {
    let protocol = match port.protocol {
        Protocol::Tcp => ProtocolFile::Tcp,
        Protocol::Udp => ProtocolFile::Udp,
        Protocol::Sctp => ProtocolFile::Sctp,
    };
    let name = names.iter().find(|named| named.number == port.number);
    PortFile {
        number: PortRef::Number(port.number),
        protocol,
        address: port.address.as_ref().map(ToString::to_string),
        name: name.map(|named| named.name.to_string()),
    }
}

fn any(name: &Text) -> PortFile {
    PortFile {
        number: PortRef::Text(ANY.to_owned()),
        protocol: ProtocolFile::default(),
        address: None,
        name: Some(name.to_string()),
    }
}

impl PortsFile {
    /// The ports by name. Returns `None` if a table by name cannot express them, because ports have a protocol or an
    /// address, lack a name, or are not in the order of their names.
    fn by_name(&self) -> Option<BTreeMap<&str, &PortRef>> {
        let is_plain =
            |port: &PortFile| port.protocol == ProtocolFile::Tcp && port.address.is_none();
        let of = |is_any: bool| {
            let ports = self.0.iter();
            ports.filter(move |port| matches!(port.number, PortRef::Text(_)) == is_any)
        };
        let is_sorted = |is_any| of(is_any).is_sorted_by(|one, next| one.name < next.name);
        if !is_sorted(true) || !is_sorted(false) || !self.0.iter().all(is_plain) {
            return None;
        }
        self.0.iter().map(|port| Some((port.name.as_deref()?, &port.number))).collect()
    }
}

impl Serialize for PortsFile {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.by_name() {
            Some(ports) => ports.serialize(serializer),
            None => self.0.serialize(serializer),
        }
    }
}

impl Serialize for PortRef {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            PortRef::Number(number) => serializer.serialize_u16(*number),
            PortRef::Text(text) => serializer.serialize_str(text),
        }
    }
}

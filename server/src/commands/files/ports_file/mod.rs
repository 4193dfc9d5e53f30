//! The ports of a group as described in a job file: a table such as `{ http = "any", metrics = 9100 }`, or a list.

mod written;

use crate::commands::CommandError;
use omega_core::{NamedPort, Port, Protocol, Text};
use schemars::JsonSchema;
use serde::de::value::SeqAccessDeserializer;
use serde::de::{self, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// The text with which a job leaves the choice of a port to the cell.
const ANY: &str = "any";

/// Ports of each task.
#[derive(Clone, Debug, Default)]
pub(in crate::commands) struct PortsFile(Vec<PortFile>);

/// A port of each task.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::commands) struct PortFile {
    /// The number, or `any`: a free port of the machine's range, which the cell chooses.
    #[schemars(with = "NumberOrText")]
    number: PortRef,
    /// The protocol.
    #[serde(default)]
    protocol: ProtocolFile,
    /// Address of the port; every address of the machine if absent.
    address: Option<String>,
    /// Name of the port, such as http: the task's program then finds the number in the variable OMEGA_PORT_HTTP.
    name: Option<String>,
}

/// A port as a number or as a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::commands) enum PortRef {
    /// The number.
    Number(u16),
    /// `any` for a port of a group; the name of the port elsewhere.
    Text(String),
}

/// The protocol of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
enum ProtocolFile {
    /// TCP.
    #[default]
    Tcp,
    /// UDP.
    Udp,
    /// SCTP.
    Sctp,
}

/// Ports by name, each with its number or `any`; or a list.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "it is there for its schema")]
pub(in crate::commands) enum NamedOrList {
    Named(BTreeMap<String, NumberOrText>),
    List(Vec<PortFile>),
}

/// A number of a port, or a text.
#[derive(JsonSchema)]
#[schemars(rename = "PortNumberOrText")]
#[serde(untagged)]
#[expect(dead_code, reason = "it is there for its schema")]
pub(in crate::commands) enum NumberOrText {
    Number(u16),
    Text(String),
}

/// The ports of a group.
#[derive(Debug, Default)]
pub(in crate::commands) struct GroupPorts {
    /// Ports with a number.
    pub(in crate::commands) fixed: Vec<Port>,
    /// Names of ports with a number.
    pub(in crate::commands) named: Vec<NamedPort>,
    /// Names of the ports that the cell chooses.
    pub(in crate::commands) any: Vec<Text>,
}

impl PortsFile {
    /// Whether the group has no ports.
    pub(in crate::commands) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The ports of the group.
    ///
    /// # Errors
    /// If a number is a text other than `any`, or is given twice, or if a port that the cell chooses lacks a name, or has a protocol or an
    /// address.
    pub(in crate::commands) fn ports(
        &self,
        at: impl Fn(&str) -> String,
    ) -> Result<GroupPorts, CommandError> {
        let mut ports = GroupPorts::default();
        for (index, port) in self.0.iter().enumerate() {
            let wrong =
                |why: String| CommandError::Field { place: at(&format!("ports[{index}]")), why };
            let name = port.name.as_deref().map(Text::from);
            match (&port.number, name) {
                (PortRef::Number(number), name) => {
                    let fixed = port.fixed(*number);
                    if ports.fixed.contains(&fixed) {
                        return Err(wrong(format!(
                            "{number} is already another port of the group"
                        )));
                    }
                    ports.fixed.push(fixed);
                    ports.named.extend(name.map(|name| NamedPort { name, number: *number }));
                }
                (PortRef::Text(text), _) if text != ANY => {
                    return Err(wrong(format!(
                        "{text:?} is not a port: give a number from 1 to 65535, or {ANY:?}"
                    )));
                }
                (PortRef::Text(_), None) => {
                    return Err(wrong("a port that the cell chooses needs a name".to_owned()));
                }
                (PortRef::Text(_), Some(name)) => {
                    if port.address.is_some() || port.protocol != ProtocolFile::default() {
                        let why = "a port that the cell chooses is for every address and \
                                   protocol: leave out address and protocol";
                        return Err(wrong(why.to_owned()));
                    }
                    ports.any.push(name);
                }
            }
        }
        Ok(ports)
    }
}

impl PortFile {
    fn fixed(&self, number: u16) -> Port {
        let protocol = match self.protocol {
            ProtocolFile::Tcp => Protocol::Tcp,
            ProtocolFile::Udp => Protocol::Udp,
            ProtocolFile::Sctp => Protocol::Sctp,
        };
        Port { address: self.address.as_deref().map(Into::into), protocol, number }
    }
}

impl<'de> Deserialize<'de> for PortsFile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<PortsFile, D::Error> {
        deserializer.deserialize_any(PortsVisitor)
    }
}

struct PortsVisitor;

impl<'de> Visitor<'de> for PortsVisitor {
    type Value = PortsFile;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ports by name, such as { http = \"any\", metrics = 9100 }, or a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<PortsFile, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(seq)).map(PortsFile)
    }

    /// The ports are sorted by name, because not every format keeps the order of a table.
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<PortsFile, A::Error> {
        let mut ports = BTreeMap::new();
        while let Some((name, number)) = map.next_entry::<String, PortRef>()? {
            ports.insert(name, number);
        }
        let port = |(name, number)| PortFile {
            number,
            protocol: ProtocolFile::default(),
            address: None,
            name: Some(name),
        };
        Ok(PortsFile(ports.into_iter().map(port).collect()))
    }
}

impl<'de> Deserialize<'de> for PortRef {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<PortRef, D::Error> {
        deserializer.deserialize_any(PortVisitor)
    }
}

struct PortVisitor;

impl Visitor<'_> for PortVisitor {
    type Value = PortRef;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a port: a number from 1 to 65535, or a text")
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<PortRef, E> {
        let wrong = |_| E::invalid_value(de::Unexpected::Unsigned(number), &self);
        u16::try_from(number).map(PortRef::Number).map_err(wrong)
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<PortRef, E> {
        let wrong = |_| E::invalid_value(de::Unexpected::Signed(number), &self);
        u16::try_from(number).map(PortRef::Number).map_err(wrong)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<PortRef, E> {
        Ok(PortRef::Text(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Deserialize)]
    struct Group {
        ports: PortsFile,
    }

    fn ports(text: &str) -> Result<GroupPorts, String> {
        let group: Group = toml::from_str(text).map_err(|why| why.to_string())?;
        group.ports.ports(str::to_owned).map_err(|why| why.to_string())
    }

    #[test]
    fn a_table_and_a_list_give_equal_ports() {
        let table = ports("ports = { rpc = \"any\", http = \"any\", metrics = 9100 }").unwrap();
        assert_eq!(table.any, [Text::from("http"), "rpc".into()]);
        assert_eq!(table.fixed, [Port::tcp(9100)]);
        assert_eq!(table.named, [NamedPort { name: "metrics".into(), number: 9100 }]);
        let list = "ports = [{ number = \"any\", name = \"http\" }, \
                    { number = 9100, name = \"metrics\" }, { number = \"any\", name = \"rpc\" }]";
        assert_eq!(format!("{:?}", ports(list).unwrap()), format!("{table:?}"));
    }

    #[test]
    fn wrong_ports_are_named() {
        let why = |text| ports(text).unwrap_err();
        assert!(why("ports = { a = \"some\" }").contains("\"some\" is not a port: give a number"));
        assert!(why("ports = [{ number = \"any\" }]").contains("needs a name"));
        let udp = "ports = [{ number = \"any\", name = \"a\", protocol = \"UDP\" }]";
        assert!(why(udp).contains("leave out address and protocol"));
        assert!(why("ports = { a = 80, b = 80 }").contains("80 is already another port"));
        assert!(why("ports = { a = 65536 }").contains("a number from 1 to 65535"));
        assert!(why("ports = 80").contains("ports by name, such as"));
    }
}

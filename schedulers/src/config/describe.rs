//! Descriptions of a plugin's arguments, for the schema of profile files. Without the feature
//! `schema` they are empty.

#[cfg(feature = "schema")]
use schemars::{JsonSchema, Schema, SchemaGenerator};

/// Types of arguments that can be described in the schema.
#[cfg(feature = "schema")]
pub trait Described: JsonSchema {}
#[cfg(feature = "schema")]
impl<A: JsonSchema> Described for A {}

/// Types of arguments that can be described in the schema. Without the feature `schema`, these are all types.
#[cfg(not(feature = "schema"))]
pub trait Described {}
#[cfg(not(feature = "schema"))]
impl<A> Described for A {}

/// The description of a plugin's arguments.
#[derive(Clone, Copy, Default)]
pub(super) struct Description {
    #[cfg(feature = "schema")]
    write: Option<fn(&mut SchemaGenerator) -> Schema>,
}

impl Description {
    /// Returns the description of arguments that are deserialised as an `A`.
    #[cfg_attr(
        not(feature = "schema"),
        expect(clippy::extra_unused_type_parameters, reason = "the schema alone needs the type")
    )]
    pub(super) fn of<A: Described>() -> Description {
        Description {
            #[cfg(feature = "schema")]
            write: Some(|generator| generator.subschema_for::<A>()),
        }
    }

    /// Returns the schema of the arguments. Without a description, the schema allows any arguments.
    #[cfg(feature = "schema")]
    pub(super) fn schema(self, generator: &mut SchemaGenerator) -> Schema {
        self.write.map_or_else(Schema::default, |write| write(generator))
    }
}

//! Types that are not built in: looked up in the server's catalogue when a statement first uses one, and kept.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{PoisonError, RwLock};

use postgres_types::{Field, Kind, Oid, Type};

use crate::error::Error;
use crate::pool::Pool;

/// One row for any type. A multirange names its range, whose element is looked up in turn.
const TYPE_QUERY: &str = "\
    select t.typname, n.nspname, t.typtype, t.typelem, t.typbasetype, t.typrelid, t.typcategory, \
           coalesce(r.rngsubtype, 0::oid), coalesce(m.rngsubtype, 0::oid) \
    from pg_catalog.pg_type t \
    join pg_catalog.pg_namespace n on n.oid = t.typnamespace \
    left join pg_catalog.pg_range r on r.rngtypid = t.oid \
    left join pg_catalog.pg_range m on m.rngmultitypid = t.oid \
    where t.oid = $1";

const ENUM_QUERY: &str = "select enumlabel from pg_catalog.pg_enum where enumtypid = $1 order by enumsortorder";

const COMPOSITE_QUERY: &str = "\
    select attname, atttypid from pg_catalog.pg_attribute \
    where attrelid = $1 and attnum > 0 and not attisdropped order by attnum";

/// How deep types may be made of types. The server has no such limit, but a catalogue that goes on for ever is none.
const DEPTH_MAX: usize = 32;

/// Types kept. More than any schema has; a server that invents types finds its bound here.
const TYPES_MAX: usize = 65_536;

/// The types of one pool's database that are not built in.
#[derive(Debug, Default)]
pub(crate) struct TypeCatalogue(RwLock<HashMap<Oid, Type>>);

impl TypeCatalogue {
    fn get(&self, oid: Oid) -> Option<Type> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(&oid).cloned()
    }

    fn insert(&self, ty: &Type) {
        let mut types = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if types.len() < TYPES_MAX {
            types.insert(ty.oid(), ty.clone());
        }
    }

    /// Forgets all of them: one was changed.
    pub(crate) fn clear(&self) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

impl Pool {
    /// The type of this number.
    pub(crate) async fn type_of(&self, oid: Oid) -> Result<Type, Error> {
        match Type::from_oid(oid).or_else(|| self.language().types.get(oid)) {
            Some(ty) => Ok(ty),
            None => self.load_type(oid, 0).await,
        }
    }

    /// Boxed: a type is made of types, and looking one up runs statements, which have types.
    fn load_type(&self, oid: Oid, depth: usize) -> Pin<Box<dyn Future<Output = Result<Type, Error>> + Send + '_>> {
        Box::pin(async move {
            if let Some(ty) = Type::from_oid(oid).or_else(|| self.language().types.get(oid)) {
                return Ok(ty);
            }
            if depth > DEPTH_MAX {
                return Err(Error::peer("a type that is made of types without end"));
            }
            let row = self.query_typed_opt(TYPE_QUERY, &[(&oid, Type::OID)]).await?;
            let row = row.ok_or_else(|| Error::peer(format!("a type of number {oid}, which its catalogue lacks")))?;
            let name: String = row.get(0)?;
            let schema: String = row.get(1)?;
            let (kind, category): (i8, i8) = (row.get(2)?, row.get(6)?);
            let [element, base, relation, range_of, multirange_of]: [Oid; 5] =
                [row.get(3)?, row.get(4)?, row.get(5)?, row.get(7)?, row.get(8)?];
            let kind = match kind as u8 {
                b'e' => Kind::Enum(self.enum_labels(oid).await?),
                b'd' => Kind::Domain(self.load_type(base, depth + 1).await?),
                b'c' => Kind::Composite(self.composite_fields(relation, depth).await?),
                b'r' => Kind::Range(self.load_type(range_of, depth + 1).await?),
                b'm' => Kind::Multirange(self.load_type(multirange_of, depth + 1).await?),
                b'p' => Kind::Pseudo,
                _ if category as u8 == b'A' && element != 0 => Kind::Array(self.load_type(element, depth + 1).await?),
                _ => Kind::Simple,
            };
            let ty = Type::new(name, oid, kind, schema);
            self.language().types.insert(&ty);
            Ok(ty)
        })
    }

    async fn enum_labels(&self, oid: Oid) -> Result<Vec<String>, Error> {
        let rows = self.query_typed(ENUM_QUERY, &[(&oid, Type::OID)]).await?;
        rows.iter().map(|row| row.get(0)).collect()
    }

    async fn composite_fields(&self, relation: Oid, depth: usize) -> Result<Vec<Field>, Error> {
        let rows = self.query_typed(COMPOSITE_QUERY, &[(&relation, Type::OID)]).await?;
        let mut fields = Vec::with_capacity(rows.len());
        for row in rows {
            let ty = self.load_type(row.get(1)?, depth + 1).await?;
            fields.push(Field::new(row.get(0)?, ty));
        }
        Ok(fields)
    }
}

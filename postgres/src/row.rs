//! `Row`: a view into the reply it came in, decoded where it is read.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use cenote_pool::Reply;
use postgres_types::{FromSql, Oid, Type, WrongType};

use crate::error::Error;
use crate::statement::Statement;
use crate::wire::backend::{self, Body, ColumnDescription};

/// A column of a result.
#[derive(Clone, Debug)]
pub struct Column {
    name: String,
    ty: Type,
    table_oid: Option<Oid>,
    column_id: Option<u16>,
    type_modifier: i32,
}

impl Column {
    pub(crate) fn new(description: ColumnDescription, ty: Type) -> Column {
        Column {
            name: description.name,
            ty,
            table_oid: (description.table_oid != 0).then_some(description.table_oid),
            column_id: (description.column_id != 0).then_some(description.column_id),
            type_modifier: description.type_modifier,
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its type.
    pub fn type_(&self) -> &Type {
        &self.ty
    }

    /// The table it comes from, if it comes from one.
    pub fn table_oid(&self) -> Option<Oid> {
        self.table_oid
    }

    /// Its number in that table.
    pub fn column_id(&self) -> Option<u16> {
        self.column_id
    }

    /// The type's modifier (`atttypmod`): the length of a `varchar(n)` and the like; -1 for none.
    pub fn type_modifier(&self) -> i32 {
        self.type_modifier
    }
}

/// One row of a result: a view into the reply, decoded where it is read.
///
/// ```no_run
/// # async fn example(pool: cenote_postgres::Pool) -> Result<(), cenote_postgres::Error> {
/// let row = pool.query_one("select id, name from item where id = $1", &[&42]).await?;
/// let id: i32 = row.get(0)?;
/// let name: Option<&str> = row.get("name")?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Row {
    reply: Reply,
    begins_at: usize,
    ends_at: usize,
    statement: Arc<Statement>,
}

impl Row {
    /// A row whose fields were checked against the columns and the bytes.
    #[inline]
    pub(crate) fn new(reply: Reply, body: Range<usize>, statement: Arc<Statement>) -> Result<Row, Error> {
        backend::check_row(reply.get(body.clone()).unwrap_or_default(), statement.columns.len())?;
        Ok(Row { reply, begins_at: body.start, ends_at: body.end, statement })
    }

    /// Its columns.
    pub fn columns(&self) -> &[Column] {
        &self.statement.columns
    }

    /// The number of its columns.
    pub fn len(&self) -> usize {
        self.columns().len()
    }

    /// Whether it has no columns.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value of a column, by its number (from 0) or name. NULL is an `Option`'s `None`.
    ///
    /// # Errors
    ///
    /// When there is no such column, its type does not fit `T`, it is NULL and `T` is not an `Option`, or its bytes
    /// cannot be read as `T`.
    pub fn get<'a, I: RowIndex, T: FromSql<'a>>(&'a self, index: I) -> Result<T, Error> {
        let number = index.find(self.columns()).ok_or_else(|| {
            Error::caller(format!("there is no column {index}; the columns are {}", names(self.columns())))
        })?;
        let column = self.columns().get(number).ok_or_else(|| Error::caller(format!("there is no column {number}")))?;
        let ty = column.type_();
        if !T::accepts(ty) {
            return Err(Error::column(column.name(), Box::new(WrongType::new::<T>(ty.clone()))));
        }
        T::from_sql_nullable(ty, self.raw(number)?).map_err(|error| Error::column(column.name(), error))
    }

    /// The value of a column as its bytes on the wire, in the binary format of its type.
    ///
    /// # Errors
    ///
    /// When there is no such column.
    pub fn get_bytes<I: RowIndex>(&self, index: I) -> Result<Option<&[u8]>, Error> {
        match index.find(self.columns()) {
            Some(number) => self.raw(number),
            None => Err(Error::caller(format!("there is no column {index}"))),
        }
    }

    fn raw(&self, number: usize) -> Result<Option<&[u8]>, Error> {
        let mut fields = Body(self.reply.get(self.begins_at..self.ends_at).unwrap_or_default());
        fields.u16()?;
        for _ in 0..number {
            backend::field(&mut fields)?;
        }
        backend::field(&mut fields)
    }
}

fn names(columns: &[Column]) -> String {
    columns.iter().map(Column::name).collect::<Vec<_>>().join(", ")
}

impl fmt::Debug for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // No values: they may be anything, and this ends up in logs.
        f.debug_struct("Row").field("columns", &names(self.columns())).finish()
    }
}

/// What a column can be asked for by: its number, or its name.
pub trait RowIndex: fmt::Display {
    /// Its number among `columns`.
    fn find(&self, columns: &[Column]) -> Option<usize>;
}

impl RowIndex for usize {
    fn find(&self, columns: &[Column]) -> Option<usize> {
        (*self < columns.len()).then_some(*self)
    }
}

impl RowIndex for str {
    fn find(&self, columns: &[Column]) -> Option<usize> {
        let exact = columns.iter().position(|column| column.name == *self);
        // Postgres folds unquoted names to lower case, so `"randomNumber"` and `randomnumber` are often meant alike.
        exact.or_else(|| columns.iter().position(|column| column.name.eq_ignore_ascii_case(self)))
    }
}

impl RowIndex for String {
    fn find(&self, columns: &[Column]) -> Option<usize> {
        RowIndex::find(self.as_str(), columns)
    }
}

impl<I: RowIndex + ?Sized> RowIndex for &I {
    fn find(&self, columns: &[Column]) -> Option<usize> {
        (**self).find(columns)
    }
}

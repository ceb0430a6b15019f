//! Columns: components next to the functions that read them from a row.

use crate::{Component, Value};

/// A type of row, which the columns of a class read.
pub trait Row {
    /// A borrowed row.
    type View<'a>;
}

/// A component, and the function that reads it from a row.
#[derive(Debug)]
pub struct Column<R: Row> {
    component: Component,
    read: for<'a> fn(&R::View<'a>) -> Value,
}

impl Component {
    /// The component with the function that reads it.
    pub const fn read<R: Row>(self, read: for<'a> fn(&R::View<'a>) -> Value) -> Column<R> {
        Column {
            component: self,
            read,
        }
    }
}

/// The components of these columns, for a [`Class`](crate::Class).
pub const fn components<R: Row, const N: usize>(columns: &[Column<R>]) -> [Component; N] {
    let mut all = [columns[0].component; N];
    let mut n = 1;
    while n < N {
        all[n] = columns[n].component;
        n += 1;
    }
    all
}

/// A row as a value.
pub fn row<R: Row>(columns: &[Column<R>], view: &R::View<'_>) -> Value {
    let member = |column: &Column<R>| {
        let value = (column.read)(view);
        let Component { name, .. } = column.component;
        debug_assert!(column.component.admits(&value), "{name} is {value:?}");
        (name.into(), value)
    };
    Value::Struct(columns.iter().map(member).collect())
}

/// Rows as a value.
pub fn rows<'a, R: Row>(
    columns: &[Column<R>],
    views: impl IntoIterator<Item = R::View<'a>>,
) -> Value {
    Value::List(views.into_iter().map(|view| row(columns, &view)).collect())
}

//! Formulas over measured quantities, which a paper's file may contain in place of a metric.
//!
//! | formula | value |
//! |---|---|
//! | `1 - tcp_share_ratio` | numbers, metrics, `+ - * /`, parentheses |
//! | `delay_ms_mean - delay_ms_mean@red` | `@NAME`: the same metric at another point of the quantity's `points` |
//! | `removed / max(runs, 1)`, `abs(x)` | the greater of two values; the absolute value |
//! | `greatest(x)`, `least(x)` | over the steps of the quantity's `over` |
//! | `delivered(control, more)` | goodput of these traffics divided by their offered load, in the quantity's window |
//! | `curve_mean(queue_packets.wan)` | the mean of a curve's values in that window |
//! | `curve_max`, `curve_p95`, `curve_slope` | other statistics of such values; the slope is per step |
//!
//! All values are computed per seed.

use super::verdict::Samples;

/// A formula.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Formula {
    Number(f64),
    Term(Term),
    Pair(Operator, Box<[Self; 2]>),
    Absolute(Box<Self>),
    /// The maximum or the minimum value over the steps of a quantity.
    Extreme(Operator, Box<Self>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Max,
    Min,
}

/// A measured quantity.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Term {
    pub(super) function: Function,
    /// The metric, the curve, or the traffics.
    pub(super) names: Vec<String>,
    /// The name of the point, if it differs from the quantity's own point.
    pub(super) point: Option<String>,
}

/// The kind of measurement of a term.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Function {
    Metric,
    Delivered,
    CurveMean,
    CurveMax,
    CurveP95,
    CurveSlope,
}

/// Gives the values of a term, and the step of the quantity's `over` if the term is inside it.
pub(super) struct Source<'a> {
    pub(super) read: &'a dyn Fn(&Term, Option<usize>) -> Samples,
    /// Number of steps of `over`.
    pub(super) steps: usize,
}

/// One value for all seeds, or one value for each seed.
enum Value {
    Number(f64),
    Samples(Samples),
}

impl Formula {
    /// Reads a formula. The error is a sentence.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut parser = Parser { rest: text };
        let formula = parser.sum().and_then(|formula| match parser.peek() {
            None => Ok(formula),
            Some(_) => Err(parser.unexpected("an operator")),
        });
        formula.map_err(|why| format!("in the formula `{text}`: {why}"))
    }

    /// The value, if the formula contains no measured quantity.
    pub(super) fn number(&self) -> Option<f64> {
        let none = |_: &Term, _| Samples::default();
        let source = Source {
            read: &none,
            steps: 0,
        };
        match self.value(&source, None) {
            Value::Number(x) => Some(x),
            Value::Samples(_) => None,
        }
    }

    /// The values, one for each seed; a single value if the formula contains no measured quantity.
    pub(super) fn samples(&self, source: &Source<'_>) -> Samples {
        match self.value(source, None) {
            Value::Number(x) => Samples::new(vec![x]),
            Value::Samples(samples) => samples,
        }
    }

    fn value(&self, source: &Source<'_>, step: Option<usize>) -> Value {
        match self {
            Self::Number(x) => Value::Number(*x),
            Self::Term(term) => Value::Samples((source.read)(term, step)),
            Self::Pair(operator, pair) => {
                let [a, b] = pair.each_ref().map(|side| side.value(source, step));
                a.with(*operator, b)
            }
            Self::Absolute(inner) => match inner.value(source, step) {
                Value::Number(x) => Value::Number(x.abs()),
                Value::Samples(samples) => Value::Samples(samples.map(f64::abs)),
            },
            Self::Extreme(operator, inner) => {
                let values = (0..source.steps).map(|step| inner.value(source, Some(step)));
                let found = values.reduce(|a, b| a.with(*operator, b));
                found.unwrap_or_else(|| Value::Samples(Samples::default()))
            }
        }
    }

    /// Every term of the formula, and whether the term is inside `greatest` or `least`.
    pub(super) fn terms(&self) -> Vec<(&Term, bool)> {
        match self {
            Self::Number(_) => Vec::new(),
            Self::Term(term) => vec![(term, false)],
            Self::Pair(_, pair) => pair.iter().flat_map(Self::terms).collect(),
            Self::Absolute(inner) => inner.terms(),
            Self::Extreme(_, inner) => {
                let terms = inner.terms().into_iter();
                terms.map(|(term, _)| (term, true)).collect()
            }
        }
    }
}

impl Value {
    fn with(self, operator: Operator, other: Self) -> Self {
        let apply = |a: f64, b: f64| operator.apply(a, b);
        match (self, other) {
            (Self::Number(a), Self::Number(b)) => Self::Number(apply(a, b)),
            (Self::Number(a), Self::Samples(b)) => Self::Samples(b.map(|b| apply(a, b))),
            (Self::Samples(a), Self::Number(b)) => Self::Samples(a.map(|a| apply(a, b))),
            (Self::Samples(a), Self::Samples(b)) => Self::Samples(a.with(&b, apply)),
        }
    }
}

impl Operator {
    fn apply(self, a: f64, b: f64) -> f64 {
        match self {
            Self::Add => a + b,
            Self::Subtract => a - b,
            Self::Multiply => a * b,
            Self::Divide => a / b,
            Self::Max => a.max(b),
            Self::Min => a.min(b),
        }
    }
}

/// Parses from left to right.
struct Parser<'a> {
    rest: &'a str,
}

impl<'a> Parser<'a> {
    fn sum(&mut self) -> Result<Formula, String> {
        let operators = [('+', Operator::Add), ('-', Operator::Subtract)];
        self.chain(operators, Self::product)
    }

    fn product(&mut self) -> Result<Formula, String> {
        let operators = [('*', Operator::Multiply), ('/', Operator::Divide)];
        self.chain(operators, Self::factor)
    }

    /// Operands with operators of the same precedence between them.
    fn chain(
        &mut self,
        operators: [(char, Operator); 2],
        part: fn(&mut Self) -> Result<Formula, String>,
    ) -> Result<Formula, String> {
        let mut all = part(self)?;
        while let Some((sign, operator)) = self.peek().and_then(|next| {
            let mut operators = operators.into_iter();
            operators.find(|(sign, _)| *sign == next)
        }) {
            self.expect(sign)?;
            all = Formula::Pair(operator, Box::new([all, part(self)?]));
        }
        Ok(all)
    }

    fn factor(&mut self) -> Result<Formula, String> {
        match self.peek() {
            Some('-') => {
                self.expect('-')?;
                let zero = Formula::Number(0.0);
                let negated = Box::new([zero, self.factor()?]);
                Ok(Formula::Pair(Operator::Subtract, negated))
            }
            Some('(') => {
                self.expect('(')?;
                let inner = self.sum()?;
                self.expect(')')?;
                Ok(inner)
            }
            Some('0'..='9' | '.') => self.number(),
            _ => {
                let name = self.name()?;
                match self.peek() {
                    Some('(') => self.function(name),
                    _ => self.term(Function::Metric, vec![name.to_owned()]),
                }
            }
        }
    }

    fn function(&mut self, name: &str) -> Result<Formula, String> {
        self.expect('(')?;
        let function = match name {
            "delivered" => Function::Delivered,
            "curve_mean" => Function::CurveMean,
            "curve_max" => Function::CurveMax,
            "curve_p95" => Function::CurveP95,
            "curve_slope" => Function::CurveSlope,
            _ => {
                let first = self.sum()?;
                let formula = match name {
                    "abs" => Formula::Absolute(Box::new(first)),
                    "greatest" => Formula::Extreme(Operator::Max, Box::new(first)),
                    "least" => Formula::Extreme(Operator::Min, Box::new(first)),
                    "max" => {
                        self.expect(',')?;
                        Formula::Pair(Operator::Max, Box::new([first, self.sum()?]))
                    }
                    _ => return Err(format!("unknown function `{name}`")),
                };
                self.expect(')')?;
                return Ok(formula);
            }
        };
        let mut names = vec![self.name()?.to_owned()];
        while function == Function::Delivered && self.peek() == Some(',') {
            self.expect(',')?;
            names.push(self.name()?.to_owned());
        }
        self.expect(')')?;
        self.term(function, names)
    }

    fn term(&mut self, function: Function, names: Vec<String>) -> Result<Formula, String> {
        let point = match self.rest.starts_with('@') {
            true => {
                self.expect('@')?;
                Some(self.name()?.to_owned())
            }
            false => None,
        };
        Ok(Formula::Term(Term {
            function,
            names,
            point,
        }))
    }

    fn number(&mut self) -> Result<Formula, String> {
        let mut before = ' ';
        let text = self.take(|next| {
            let is_sign = matches!(next, '+' | '-') && matches!(before, 'e' | 'E');
            before = next;
            is_sign || next.is_ascii_digit() || matches!(next, '.' | 'e' | 'E')
        });
        let number = text.parse();
        number
            .map(Formula::Number)
            .map_err(|_| format!("`{text}` is not a number"))
    }

    fn name(&mut self) -> Result<&'a str, String> {
        match self.peek() {
            Some(next) if next.is_ascii_alphabetic() => {
                Ok(self.take(|next| next.is_ascii_alphanumeric() || matches!(next, '_' | '.')))
            }
            _ => Err(self.unexpected("a name or a number")),
        }
    }

    fn take(&mut self, mut belongs: impl FnMut(char) -> bool) -> &'a str {
        let end = self.rest.find(|next| !belongs(next));
        let (taken, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        self.rest = rest;
        taken
    }

    fn peek(&mut self) -> Option<char> {
        self.rest = self.rest.trim_start();
        self.rest.chars().next()
    }

    fn expect(&mut self, wanted: char) -> Result<(), String> {
        match self.peek() == Some(wanted) {
            true => {
                self.rest = &self.rest[wanted.len_utf8()..];
                Ok(())
            }
            false => Err(self.unexpected(&format!("`{wanted}`"))),
        }
    }

    fn unexpected(&self, wanted: &str) -> String {
        match self.rest {
            "" => format!("unexpected end, expected {wanted}"),
            rest => format!("unexpected `{rest}`, expected {wanted}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two seeds: `a` is 1 and 2, and 10 times these values at point `far`; a step adds its index.
    fn value(text: &str) -> Vec<f64> {
        let read = |term: &Term, step: Option<usize>| {
            assert_eq!(term.names, ["a"], "{term:?}");
            let factor = if term.point.is_some() { 10.0 } else { 1.0 };
            let more = step.unwrap_or(0) as f64;
            Samples::new(vec![factor + more, 2.0 * factor + more])
        };
        let source = Source {
            read: &read,
            steps: 3,
        };
        let samples = Formula::parse(text).unwrap().samples(&source);
        samples.values().to_vec()
    }

    #[test]
    fn values_by_hand() {
        assert_eq!(value("1 + 2 * 3 - 4 / 2"), [5.0]);
        assert_eq!(value("(1 + 2) * -3"), [-9.0]);
        assert_eq!(value("1e-3 * 2.5E+3"), [2.5]);
        assert_eq!(value("1 - a"), [0.0, -1.0]);
        assert_eq!(value("a@far - 2 * a"), [8.0, 16.0]);
        assert_eq!(value("a / max(a - 5, 0.5)"), [2.0, 4.0]);
        assert_eq!(value("abs(1 - a) + abs(-2)"), [2.0, 3.0]);
        assert_eq!(value("greatest(a) - least(a)"), [2.0, 2.0]);
        assert_eq!(value("delivered(a)"), [1.0, 2.0]);
        assert_eq!(value("curve_p95(a)@far"), [10.0, 20.0]);
        let number = |text| Formula::parse(text).unwrap().number();
        assert_eq!([number("0.8 * 20"), number("a")], [Some(16.0), None]);
    }

    #[test]
    fn mistakes_are_named() {
        let error = |text: &str| Formula::parse(text).unwrap_err();
        assert_eq!(
            error("1 + "),
            "in the formula `1 + `: unexpected end, expected a name or a number"
        );
        assert!(error("1 {x}").ends_with("unexpected `{x}`, expected an operator"));
        assert!(error("mean(a)").ends_with("unknown function `mean`"));
        assert!(error("max(a)").ends_with("unexpected `)`, expected `,`"));
        assert!(error("1.2.3").ends_with("`1.2.3` is not a number"));
    }
}

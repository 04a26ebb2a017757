//! The statements that change many rows of the pin tables at once. Every row begins with identity and key.
//!
//! A statement that replaces a row sets all its columns but the key, so that nothing of a damaged row is left.

use crate::sql::bulk::Column::{Bytes, Int, Text};
use crate::sql::bulk::{Form, statements};
use crate::sql::{Connection, Value};

/// Keeps the accepted version as a former one, before another replaces it. More columns: time and revision.
pub(super) const KEEP_FORMER: Form = Form {
    begin: "INSERT INTO past_pins (identity, key, state, pin, kind, name, formula, json, first_seen_ms, decided_ms, \
            decided_by, rule, ended_ms, revision) \
            SELECT a.identity, a.key, 'former', a.pin, a.kind, a.name, a.formula, a.json, a.first_seen_ms, \
            a.accepted_ms, a.accepted_by, a.rule, column3, column4 FROM accepted_pins AS a JOIN ",
    columns: &[Text, Bytes, Int, Int],
    end: " ON a.identity = column1 AND a.key = column2 WHERE column1 IS NOT NULL \
          ON CONFLICT (identity, key, state, pin) DO UPDATE SET formula = excluded.formula, json = excluded.json, \
          first_seen_ms = excluded.first_seen_ms, decided_ms = excluded.decided_ms, \
          decided_by = excluded.decided_by, rule = excluded.rule, ended_ms = excluded.ended_ms, \
          revision = excluded.revision",
};

/// Stores what a rule accepts. More columns: kind, name, formula, pin, text, time, rule.
pub(super) const ACCEPT_BY_RULE: Form = Form {
    begin: "INSERT INTO accepted_pins (identity, key, kind, name, formula, pin, json, first_seen_ms, accepted_ms, rule, \
            times) SELECT column1, column2, column3, column4, column5, column6, column7, column8, column8, column9, 0 \
            FROM ",
    columns: &[Text, Bytes, Text, Bytes, Int, Bytes, Bytes, Int, Text],
    end: " WHERE column1 IS NOT NULL ON CONFLICT (identity, key) DO UPDATE SET kind = excluded.kind, \
          name = excluded.name, formula = excluded.formula, \
          pin = excluded.pin, json = excluded.json, first_seen_ms = excluded.first_seen_ms, \
          accepted_ms = excluded.accepted_ms, accepted_by = NULL, rule = excluded.rule, gone_ms = NULL, times = 0",
};

/// Lets a version wait, in place of any other. More columns: kind, name, formula, pin, text, reason, details, time, times.
pub(super) const WAIT: Form = Form {
    begin: "INSERT INTO waiting_pins (identity, key, kind, name, formula, pin, json, reason, details, first_seen_ms, \
            times) SELECT * FROM ",
    columns: &[Text, Bytes, Text, Bytes, Int, Bytes, Bytes, Text, Text, Int, Int],
    end: " WHERE column1 IS NOT NULL ON CONFLICT (identity, key) DO UPDATE SET kind = excluded.kind, \
          name = excluded.name, formula = excluded.formula, pin = excluded.pin, json = excluded.json, reason = excluded.reason, details = excluded.details, \
          first_seen_ms = excluded.first_seen_ms, times = excluded.times",
};

/// Updates what is said about a version that goes on waiting. More columns: reason and details.
pub(super) const EXPLAIN: Form = Form {
    begin: "UPDATE waiting_pins SET reason = column3, details = column4 FROM ",
    columns: &[Text, Bytes, Text, Text],
    end: " WHERE waiting_pins.identity = column1 AND waiting_pins.key = column2",
};

/// Removes waiting versions.
pub(super) const WITHDRAW: Form = Form {
    begin: "DELETE FROM waiting_pins WHERE (identity, key) IN (SELECT column1, column2 FROM ",
    columns: &[Text, Bytes],
    end: " WHERE column1 IS NOT NULL)",
};

/// Removes accepted versions that are damaged.
pub(super) const REMOVE_ACCEPTED: Form = Form {
    begin: "DELETE FROM accepted_pins WHERE (identity, key) IN (SELECT column1, column2 FROM ",
    columns: &[Text, Bytes],
    end: " WHERE column1 IS NOT NULL)",
};

/// Remembers beside an accepted version how often others have waited. One more column: times.
pub(super) const COUNT: Form = Form {
    begin: "UPDATE accepted_pins SET times = column3 FROM ",
    columns: &[Text, Bytes, Int],
    end: " WHERE accepted_pins.identity = column1 AND accepted_pins.key = column2",
};

/// Notes when an accepted definition was last listed, or that it is listed again. One more column: time or NULL.
pub(super) const LEAVE: Form = Form {
    begin: "UPDATE accepted_pins SET gone_ms = column3 FROM ",
    columns: &[Text, Bytes, Int],
    end: " WHERE accepted_pins.identity = column1 AND accepted_pins.key = column2",
};

/// Accepts what waits, for a user. More columns: time and user.
pub(super) const ACCEPT_WAITING: Form = Form {
    begin: "INSERT INTO accepted_pins (identity, key, kind, name, formula, pin, json, first_seen_ms, accepted_ms, \
            accepted_by, times) SELECT w.identity, w.key, w.kind, w.name, w.formula, w.pin, w.json, w.first_seen_ms, \
            column3, column4, 0 FROM waiting_pins AS w JOIN ",
    columns: &[Text, Bytes, Int, Text],
    end: " ON w.identity = column1 AND w.key = column2 WHERE column1 IS NOT NULL \
          ON CONFLICT (identity, key) DO UPDATE SET kind = excluded.kind, name = excluded.name, \
          formula = excluded.formula, pin = excluded.pin, \
          json = excluded.json, first_seen_ms = excluded.first_seen_ms, accepted_ms = excluded.accepted_ms, \
          accepted_by = excluded.accepted_by, rule = NULL, gone_ms = NULL, times = 0",
};

/// Accepts what was rejected, for a user. More columns: pin as stored, time and user.
pub(super) const ACCEPT_REJECTED: Form = Form {
    begin: "INSERT INTO accepted_pins (identity, key, kind, name, formula, pin, json, first_seen_ms, accepted_ms, \
            accepted_by, times) SELECT p.identity, p.key, p.kind, p.name, p.formula, p.pin, p.json, p.first_seen_ms, \
            column4, column5, 0 FROM past_pins AS p JOIN ",
    columns: &[Text, Bytes, Bytes, Int, Text],
    end: " ON p.identity = column1 AND p.key = column2 AND p.pin = column3 AND p.state = 'rejected' \
          WHERE p.json IS NOT NULL ON CONFLICT (identity, key) DO UPDATE SET kind = excluded.kind, \
          name = excluded.name, formula = excluded.formula, pin = excluded.pin, json = excluded.json, \
          first_seen_ms = excluded.first_seen_ms, accepted_ms = excluded.accepted_ms, \
          accepted_by = excluded.accepted_by, rule = NULL, gone_ms = NULL, times = 0",
};

/// Forgets rejections. One more column: pin as stored.
pub(super) const FORGET_REJECTED: Form = Form {
    begin: "DELETE FROM past_pins WHERE state = 'rejected' AND (identity, key, pin) IN \
            (SELECT column1, column2, column3 FROM ",
    columns: &[Text, Bytes, Bytes],
    end: " WHERE column1 IS NOT NULL)",
};

/// Rejects what waits, for a user. More columns: time, user, revision.
pub(super) const REJECT_WAITING: Form = Form {
    begin: "INSERT INTO past_pins (identity, key, state, pin, kind, name, formula, json, first_seen_ms, decided_ms, \
            decided_by, ended_ms, revision) \
            SELECT w.identity, w.key, 'rejected', w.pin, w.kind, w.name, w.formula, w.json, w.first_seen_ms, column3, \
            column4, column3, column5 FROM waiting_pins AS w JOIN ",
    columns: &[Text, Bytes, Int, Text, Int],
    end: " ON w.identity = column1 AND w.key = column2 WHERE column1 IS NOT NULL \
          ON CONFLICT (identity, key, state, pin) DO UPDATE SET json = excluded.json, \
          first_seen_ms = excluded.first_seen_ms, decided_ms = excluded.decided_ms, \
          decided_by = excluded.decided_by, ended_ms = excluded.ended_ms, revision = excluded.revision",
};

/// Runs a form for some rows, as few statements. No rows, no statement.
pub(super) async fn run(connection: &mut Connection, form: &Form, rows: Vec<Value>) -> Result<(), sqlx::Error> {
    for statement in statements(form, connection.dialect(), rows) {
        connection.execute(statement).await?;
    }
    Ok(())
}

//! Payments from the company's accounts to payees it knows.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{DemoTool, tool};
use crate::contract::{Contract, Idempotency, Operation, Risk, StepUp, World};
use crate::failure::{Code, Failure};
use crate::tools::data::Data;

const PAYMENT_MAX_CENTS: u64 = 1_000_000;

pub(super) fn tools() -> Vec<DemoTool> {
    vec![tool("execute_payment", PAY, |data, new: NewPayment, _now| data.pay(new))]
}

const PAY: Contract = Contract {
    description: "Pays an amount from a company account to a known payee.",
    category: "billing",
    risk: Risk::Critical,
    operation: Operation::Destructive,
    world: World::Open,
    step_up: StepUp::Always,
    permissions: &["accounts:pay", "payees:read"],
    side_effects: &[
        "Money leaves the account and cannot be returned.",
        "Repeating the call pays again, unless it has the same idempotency key within 24 hours.",
    ],
    audit_event: "payment.executed",
    failures: &[
        Code::NotFound,
        Code::InvalidAmount,
        Code::CurrencyMismatch,
        Code::LimitExceeded,
        Code::InsufficientFunds,
    ],
    idempotency: Idempotency::Key("24h"),
    sensitive: &["/reference"],
    ..Contract::PLAIN
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Account {
    id: String,
    currency: String,
    balance_cents: u64,
}

impl Account {
    pub(crate) fn new(id: &str, currency: &str, balance_cents: u64) -> Self {
        Self { id: id.to_owned(), currency: currency.to_owned(), balance_cents }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Payee {
    id: String,
    name: String,
}

impl Payee {
    pub(crate) fn new(id: &str, name: &str) -> Self {
        Self { id: id.to_owned(), name: name.to_owned() }
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct NewPayment {
    /// The account to pay from, such as `acc_main`.
    account_id: String,
    /// The payee, such as `pay_hosting`.
    payee_id: String,
    /// Amount in cents, at most 1000000.
    #[schemars(range(min = 1))]
    amount_cents: u64,
    /// The account's currency, such as `EUR`.
    currency: String,
    /// Text on the payee's statement.
    #[serde(default)]
    reference: String,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Payment {
    /// The payment's id.
    payment_id: String,
    /// Always `executed`. A payment that cannot be made is refused.
    status: PaymentStatus,
    /// The payee.
    payee: String,
    /// Text on the payee's statement.
    reference: String,
    /// Balance of the account after the payment, in cents.
    balance_cents: u64,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum PaymentStatus {
    Executed,
}

impl Data {
    fn pay(&mut self, new: NewPayment) -> Result<Payment, Failure> {
        if new.amount_cents == 0 {
            return Err(Failure::new(Code::InvalidAmount, "`amountCents` must be at least 1"));
        }
        if new.amount_cents > PAYMENT_MAX_CENTS {
            let message =
                format!("{} cents exceeds the maximum of {PAYMENT_MAX_CENTS} cents per payment", new.amount_cents);
            return Err(Failure::new(Code::LimitExceeded, message));
        }
        let payee = self.payees.iter().find(|payee| payee.id == new.payee_id);
        let payee = payee.ok_or_else(|| Failure::not_found("payee", &new.payee_id))?.name.clone();
        let account = self.accounts.iter_mut().find(|account| account.id == new.account_id);
        let account = account.ok_or_else(|| Failure::not_found("account", &new.account_id))?;
        if account.currency != new.currency {
            let message = format!("`{}` is an account in {}", account.id, account.currency);
            return Err(Failure::new(Code::CurrencyMismatch, message));
        }
        let Some(balance_cents) = account.balance_cents.checked_sub(new.amount_cents) else {
            let message = format!("`{}` has {} cents", account.id, account.balance_cents);
            return Err(Failure::new(Code::InsufficientFunds, message));
        };
        account.balance_cents = balance_cents;
        let payment_id = self.next_id("payment");
        Ok(Payment { payment_id, status: PaymentStatus::Executed, payee, reference: new.reference, balance_cents })
    }
}

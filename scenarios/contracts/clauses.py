"""Clause texts: ten topics of framework agreements, six kinds of special conditions.

The first sentence of every text holds its fact. `{p}` is the provider's name, `{v}` the value.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .company import Contract, Terms


def number(value: float) -> str:
    """2.0 -> "2", 2.5 -> "2.5"."""
    return f"{value:g}"


@dataclass(frozen=True)
class Topic:
    """One clause of every framework agreement. `fact(terms)` is what a right answer must hold."""

    clause: str
    title: str
    fact: Callable[[Terms], str]
    first: tuple[str, ...]
    body: tuple[str, ...]
    query: str
    asks: tuple[str, ...]  # as part of a question: "what ..."


TOPICS: dict[str, Topic] = {
    "penalty": Topic(
        "8.3",
        "late delivery",
        lambda t: f"{number(t.penalty_percent)}%",
        (
            "Clause 8.3 of the {p} framework agreement sets a late-delivery penalty of {v} per "
            "month on the invoiced amount.",
            "Under clause 8.3 of the framework agreement, {p} owes a late-delivery penalty of "
            "{v} per month on the invoiced "
            "amount.",
        ),
        (
            "The penalty accrues from the first full week of delay and stops at {cap}% of the "
            "price of the order.",
            "{p} may avoid it by announcing the delay in writing before the agreed date and by "
            "offering a substitute of equal quality.",
            "Delays caused by force majeure, by strikes of public carriers or by our own late "
            "instructions do not count.",
            "The amount is deducted from the next invoice; a separate claim for damages beyond "
            "it remains possible.",
        ),
        "{p} late-delivery penalty",
        (
            "what late-delivery penalty does the framework agreement with {p} set",
            "which monthly penalty does the clause on late delivery of {p} impose",
            "what does clause 8.3 say about late delivery by {p}",
        ),
    ),
    "revision": Topic(
        "7.1",
        "price revision",
        lambda t: f"{number(t.revision_cap_percent)}%",
        (
            "Clause 7.1 of the {p} framework agreement links the price revision to the {index} "
            "price and caps it at {v} per year.",
            "Under clause 7.1 of the framework agreement, {p} may revise prices with the {index} "
            "price, capped at {v} per "
            "year.",
        ),
        (
            "A revision is announced in writing sixty days ahead and takes effect on the first "
            "day of a quarter.",
            "{p} must attach the published index values of both quarters to the announcement.",
            "A fall of the index lowers the price in the same way, without any lower limit.",
            "If the index is no longer published, the parties agree on a successor in good faith.",
        ),
        "{p} price revision index",
        (
            "which cap does the price revision clause of {p} set",
            "how far may {p} raise its prices in a year under the revision clause",
            "what limit does clause 7.1 put on price revisions by {p}",
        ),
    ),
    "payment": Topic(
        "5.2",
        "payment term",
        lambda t: f"{t.payment_days} days",
        (
            "Clause 5.2 of the {p} framework agreement sets a payment term of {v} from the "
            "invoice date.",
            "Under clause 5.2 of the framework agreement, invoices of {p} fall due at the end of "
            "a payment term of {v}.",
        ),
        (
            "An invoice without our order number is returned and the term starts again with the "
            "corrected one.",
            "Disputed items may be withheld, while the undisputed rest is paid on time.",
            "{p} waives interest for the first week of a delay and may charge the legal rate "
            "after that.",
            "Early payment earns no discount unless an order says otherwise.",
        ),
        "{p} invoice payment term",
        (
            "which payment term does the framework agreement with {p} set",
            "when do invoices of {p} fall due according to the payment clause",
            "what does the clause on payment terms of {p} say",
        ),
    ),
    "notice": Topic(
        "11.4",
        "termination notice",
        lambda t: f"{t.notice_days} days",
        (
            "Clause 11.4 of the {p} framework agreement requires a termination notice of {v} in "
            "writing.",
            "Under clause 11.4 of the framework agreement, the agreement with {p} may be ended "
            "with a termination notice "
            "of {v}.",
        ),
        (
            "Notice is given by registered letter to the address in the annex and counts from "
            "the day of receipt.",
            "Orders placed before the notice are completed under the old terms.",
            "A serious breach by {p} that is not cured within two weeks allows ending the "
            "agreement at once.",
            "After the end {p} hands over drawings, spare parts and access codes without charge.",
        ),
        "{p} termination notice",
        (
            "what notice does terminating the framework agreement with {p} require",
            "which termination notice does clause 11.4 of {p} require",
            "with which notice can the agreement with {p} be terminated",
        ),
    ),
    "warranty": Topic(
        "6.2",
        "warranty",
        lambda t: f"{t.warranty_months} months",
        (
            "Clause 6.2 of the {p} framework agreement grants a warranty of {v} from acceptance.",
            "Under clause 6.2 of the framework agreement, {p} gives a warranty of {v} that "
            "starts with acceptance.",
        ),
        (
            "Within it {p} repairs or replaces defective deliveries at its own cost, transport "
            "included.",
            "A replaced part starts a warranty of its own, at least half as long as the first.",
            "Wear parts and damage by improper use are excluded, and the burden of proof for "
            "that lies with the supplier.",
            "Hidden defects may be claimed until one month after they were found.",
        ),
        "{p} warranty period",
        (
            "what warranty does {p} grant in its framework agreement",
            "which warranty terms does clause 6.2 of {p} contain",
            "how does the warranty clause of {p} limit the claim period",
        ),
    ),
    "liability": Topic(
        "9.1",
        "liability",
        lambda t: f"{t.liability_percent}%",
        (
            "Clause 9.1 of the {p} framework agreement caps liability at {v} of the annual order "
            "value.",
            "Under clause 9.1 of the framework agreement, the liability of {p} is capped at {v} "
            "of the annual order value.",
        ),
        (
            "The cap does not apply to intent, gross negligence, injury to persons or breach of "
            "secrecy.",
            "Indirect losses such as lost profit are excluded on both sides.",
            "{p} keeps an insurance of at least the capped amount and shows the policy every year.",
            "Claims lapse two years after the damage became known.",
        ),
        "{p} liability cap",
        (
            "which cap on liability does the framework agreement with {p} contain",
            "how far is {p} liable under clause 9.1",
            "what does the liability clause of {p} say",
        ),
    ),
    "secrecy": Topic(
        "12.1",
        "confidentiality",
        lambda t: f"{t.secrecy_years} years",
        (
            "Clause 12.1 of the {p} framework agreement keeps confidentiality obligations alive "
            "for {v} after its end.",
            "Under clause 12.1 of the framework agreement, confidentiality binds {p} for {v} "
            "after the end of the "
            "agreement.",
        ),
        (
            "Drawings, price lists and site plans count as secret even without a stamp.",
            "{p} may share them with subcontractors only after we have agreed in writing.",
            "What was public before, or was found independently, stays free.",
            "On request all copies are returned or destroyed and the destruction is confirmed.",
        ),
        "{p} confidentiality after end",
        (
            "how long do confidentiality obligations of {p} last under clause 12.1",
            "what does the confidentiality clause of {p} require after the end of the agreement",
            "for what time is {p} bound by the confidentiality terms",
        ),
    ),
    "delivery": Topic(
        "4.3",
        "delivery time",
        lambda t: f"{t.delivery_weeks} weeks",
        (
            "Clause 4.3 of the {p} framework agreement fixes a standard delivery time of {v} "
            "after the order.",
            "Under clause 4.3 of the framework agreement, {p} keeps a standard delivery time of "
            "{v} after the order.",
        ),
        (
            "Partial deliveries need our consent and do not trigger an invoice of their own.",
            "{p} confirms each order within three working days and names the carrier.",
            "Goods travel at the supplier's risk until they are unloaded at the named gate.",
            "Urgent orders may be agreed case by case against a surcharge stated in advance.",
        ),
        "{p} standard delivery time",
        (
            "what delivery time does the framework agreement with {p} fix",
            "which delivery time does clause 4.3 of {p} state",
            "what do the delivery terms of {p} say about the standard time",
        ),
    ),
    "audit": Topic(
        "13.2",
        "audit rights",
        lambda t: f"{t.audit_days} days",
        (
            "Clause 13.2 of the {p} framework agreement lets us audit its sites after an "
            "announcement of {v}.",
            "Under clause 13.2 of the framework agreement, our auditors may visit {p} after an "
            "audit announcement of {v}.",
        ),
        (
            "The audit covers quality records, safety training and the bookkeeping of our orders.",
            "{p} provides a room, a contact person and read access to the records in question.",
            "Findings are rated, and serious ones are corrected within a month at the supplier's "
            "cost.",
            "Each side bears its own cost unless the audit finds overcharging.",
        ),
        "{p} audit announcement",
        (
            "what announcement do our audit rights at {p} require",
            "how far ahead does clause 13.2 make us announce an audit at {p}",
            "what does the audit clause of {p} say about announcing a visit",
        ),
    ),
    "response": Topic(
        "10.5",
        "response to faults",
        lambda t: f"{t.reply_hours} hours",
        (
            "Clause 10.5 of the {p} framework agreement demands a response to critical faults "
            "within {v}.",
            "Under clause 10.5 of the framework agreement, {p} must give a response to critical "
            "faults within {v}.",
        ),
        (
            "A fault is critical when production stops or when persons are at risk.",
            "{p} keeps a hotline that is staffed at all hours and logs every call with its time.",
            "A temporary repair is allowed if the final one follows within ten working days.",
            "Three missed responses in a quarter entitle us to use another company at the "
            "supplier's cost.",
        ),
        "{p} critical faults response",
        (
            "how fast must {p} respond to critical faults under clause 10.5",
            "which response to critical faults does the agreement demand from {p}",
            "what does the clause on fault response of {p} demand",
        ),
    ),
}


@dataclass(frozen=True)
class Special:
    """One kind of special condition of a single contract. `{t}` is the contract's title."""

    unit: str
    first: str
    body: tuple[str, ...]
    query: str
    asks: tuple[str, ...]

    def fact(self, contract: Contract) -> str:
        """What a right answer must hold."""
        return f"{contract.special_value}{self.unit}"


SPECIALS: dict[str, Special] = {
    "bonus": Special(
        "%",
        "The special condition of contract {t} with {p} promises an early-completion bonus of "
        "{v} of the last instalment.",
        (
            "The bonus of {t} is due when acceptance happens at least two weeks before the date.",
            "It is paid with the last invoice and does not count toward later price revisions.",
            "Work that was left out by agreement lowers the bonus in proportion.",
        ),
        "{t} early-completion bonus",
        (
            "what early-completion bonus does the text of contract {t} promise",
            "which early-completion bonus does the special condition of contract {t} promise",
        ),
    ),
    "retention": Special(
        "%",
        "The special condition of contract {t} with {p} allows a retention of {v} until the "
        "final inspection.",
        (
            "The retention of {t} is released within ten days after the inspection report.",
            "A bank guarantee of the same amount may replace it at any time.",
            "Open defects allow keeping twice the cost of their repair.",
        ),
        "{t} retention until final inspection",
        (
            "what retention until the final inspection does the text of contract {t} allow",
            "which retention does the special condition of contract {t} set",
        ),
    ),
    "acceptance": Special(
        " days",
        "The special condition of contract {t} with {p} foresees an acceptance test of {v} under "
        "full operation.",
        (
            "During the acceptance test of {t} the staff is trained and all readings are logged.",
            "An interruption of more than a day starts the test again.",
            "Passing it moves risk and ownership; failing it twice allows withdrawal.",
        ),
        "{t} acceptance test duration",
        (
            "what acceptance test does the text of contract {t} foresee",
            "how long does the acceptance test in the text of contract {t} run",
        ),
    ),
    "exclusivity": Special(
        " months",
        "The special condition of contract {t} with {p} grants regional exclusivity for {v} "
        "after signature.",
        (
            "The exclusivity of {t} covers comparable goods at our sites in the same region.",
            "Emergency purchases elsewhere stay possible if the supplier cannot deliver in a week.",
            "It ends early when quality falls below the agreed level in two quarters.",
        ),
        "{t} regional exclusivity",
        (
            "what regional exclusivity does the text of contract {t} grant",
            "which exclusivity is granted by the special condition of contract {t}",
        ),
    ),
    "storage": Special(
        " pallets",
        "The special condition of contract {t} with {p} reserves free buffer storage of {v} at "
        "the supplier.",
        (
            "The buffer storage of {t} is kept separate, insured and open to inspection.",
            "Goods stored longer than half a year are invoiced but stay free of storage fees.",
            "Withdrawals are confirmed the same day and refilled within two weeks.",
        ),
        "{t} free buffer storage pallets",
        (
            "what buffer storage does the text of contract {t} reserve",
            "which storage is reserved in the special condition of contract {t}",
        ),
    ),
    "training": Special(
        " hours",
        "The special condition of contract {t} with {p} includes staff training of {v} without "
        "charge.",
        (
            "The training of {t} takes place at our site and may be split over a year.",
            "Material is handed over in an editable form and may be reused inside the company.",
            "Hours that were not used lapse with the end of the warranty.",
        ),
        "{t} staff training included",
        (
            "what staff training does the text of contract {t} include",
            "which training is included by the special condition of contract {t}",
        ),
    ),
}

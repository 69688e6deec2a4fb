"""Internal policies and procedures. `{v}` is drawn by the generator from `values`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Policy:
    """One policy: its first sentence holds the value that the questions ask for."""

    title: str
    first: str
    body: str
    values: tuple[int, ...]
    unit: str
    query: str
    asks: tuple[str, ...]


POLICIES: dict[str, Policy] = {
    "travel": Policy(
        "Travel policy",
        "The travel policy reimburses hotel nights up to {v} per night.",
        "Bookings go through the travel desk, which keeps a list of preferred houses. Higher rates "
        "need the consent of the head of department before the trip. Receipts are handed in with "
        "the travel report; breakfast is part of the daily allowance. Trains come before flights "
        "wherever the journey takes less than five hours, and first class is allowed only for "
        "journeys on which people work.",
        (120, 135, 150, 165, 180),
        " euros",
        "travel policy hotel night reimbursement limit",
        (
            "what does the travel policy say about hotel nights",
            "up to which rate does the travel policy reimburse hotel nights",
        ),
    ),
    "approval": Policy(
        "Purchase approval procedure",
        "The purchase approval procedure requires two signatures above {v}.",
        "The first signature is that of the budget owner, the second that of the purchasing "
        "department. Orders may not be split to stay below the limit. In an emergency one "
        "signature suffices if the second follows within two working days and the reason is "
        "noted. Framework call-offs count with the value of the single call, not with that of "
        "the framework.",
        (10000, 15000, 20000, 25000, 40000),
        " euros",
        "purchase approval procedure two signatures limit",
        (
            "when does the purchase approval procedure require two signatures",
            "above which value does the approval procedure for purchases ask for two signatures",
        ),
    ),
    "retention": Policy(
        "Records retention policy",
        "The records retention policy keeps signed contracts for {v} after their end.",
        "Paper originals lie in the archive of the legal department and scans in the document "
        "store. Invoices follow the tax rules of the country in which they were booked. "
        "Destruction happens in spring under the four-eyes principle and is entered in a register. "
        "Records that are part of a legal dispute are exempt until the dispute has ended.",
        (6, 8, 10, 12, 15),
        " years",
        "records retention policy signed contracts keep",
        (
            "how long does the records retention policy keep signed contracts",
            "what does the records retention policy require for signed contracts",
        ),
    ),
    "onboarding": Policy(
        "Supplier onboarding procedure",
        "The supplier onboarding procedure asks new suppliers for {v} of annual accounts.",
        "Purchasing sends the questionnaire, checks bank details by a call to a known number and "
        "files the tax certificate. A site visit is needed for suppliers of safety parts. The "
        "procedure ends with a trial order, whose quality and punctuality are rated before the "
        "supplier becomes visible to other departments.",
        (2, 3, 4, 5),
        " years",
        "supplier onboarding procedure annual accounts new suppliers",
        (
            "which annual accounts does the supplier onboarding procedure ask for",
            "what must new suppliers hand in under the onboarding procedure",
        ),
    ),
    "gifts": Policy(
        "Gifts and hospitality policy",
        "The gifts policy forbids accepting presents worth more than {v}.",
        "Smaller presents are reported to the head of department and shared with the team where "
        "that is possible. Invitations to meals are fine while business is discussed and turns "
        "are taken. During an open tender nothing at all may be accepted from bidders. Whoever is "
        "in doubt asks the compliance office before saying yes.",
        (20, 25, 30, 35, 50),
        " euros",
        "gifts policy presents limit hospitality",
        (
            "what limit does the gifts policy put on presents",
            "from which value on does the gifts policy forbid presents",
        ),
    ),
    "incident": Policy(
        "Incident reporting procedure",
        "The incident reporting procedure demands a first report within {v} of an accident.",
        "The shift leader calls the safety officer, secures the place and writes down who saw "
        "what. "
        "Photographs are taken before anything is moved, unless people are in danger. The full "
        "report follows within a week and names causes, not culprits. Near misses are reported "
        "in the same form and are read at the monthly meeting.",
        (2, 3, 4, 6, 8),
        " hours",
        "incident reporting procedure first report accident",
        (
            "how soon does the incident reporting procedure demand a first report",
            "what does the incident reporting procedure say about the first report of an accident",
        ),
    ),
    "passwords": Policy(
        "Access and password policy",
        "The password policy requires passphrases of at least {v}.",
        "A second factor is needed for every system that can be reached from outside. Passphrases "
        "are not changed on a calendar but at once when there is a sign of misuse. Shared accounts "
        "are forbidden, service accounts have an owner. The help desk never asks for a passphrase, "
        "and whoever is asked reports the call.",
        (12, 14, 16, 18, 20),
        " characters",
        "access and password policy passphrase length",
        (
            "what passphrases does the password policy require",
            "which length of passphrase does the access policy require",
        ),
    ),
    "remote": Policy(
        "Remote work policy",
        "The remote work policy allows working from home on up to {v} per month.",
        "Days are agreed with the team so that the office is never empty on a weekday. Working "
        "from another country needs the consent of the tax department. Equipment is provided and "
        "insured by the company. Confidential papers stay in the office, and screens are locked "
        "when other people are in the room.",
        (6, 8, 10, 12),
        " days",
        "remote work policy working from home allowance",
        (
            "what does the remote work policy allow",
            "up to what extent does the remote work policy allow working from home",
        ),
    ),
    "tender": Policy(
        "Tender procedure",
        "The tender procedure keeps bids sealed until {v} after the deadline.",
        "Two people from different departments open them together and sign the list. Late bids "
        "are returned unopened. Questions of one bidder and the answers to them go to all. The "
        "award is justified in writing by price, quality and delivery, with the weights that the "
        "invitation named, and unsuccessful bidders may ask for the reasons.",
        (2, 3, 4, 5),
        " days",
        "tender procedure bids sealed until after deadline",
        (
            "until when does the tender procedure keep bids sealed",
            "what does the tender procedure say about opening sealed bids",
        ),
    ),
    "expenses": Policy(
        "Expenses procedure",
        "The expenses procedure pays out approved claims within {v}.",
        "Claims are entered in the portal with a photograph of each receipt. Claims older than a "
        "quarter need a reason. Tips are reimbursed up to a tenth of the bill, drinks only with a "
        "meal. The finance team checks one claim in ten in detail, chosen at random, and every "
        "claim above the limit that its own handbook names.",
        (5, 7, 10, 12, 14),
        " days",
        "expenses procedure payout of approved claims",
        (
            "how fast does the expenses procedure pay out approved claims",
            "when are approved claims paid out under the expenses procedure",
        ),
    ),
    "returns": Policy(
        "Returns policy",
        "The returns policy gives customers {v} to send goods back.",
        "Goods must be complete, but the packaging may be open. We bear the return freight when "
        "the goods were wrong or damaged; otherwise the customer does. The refund is made to the "
        "account from which the payment came. Goods made to order are excluded unless they are "
        "defective, and software is excluded once its key was used.",
        (14, 21, 28, 30, 45),
        " days",
        "returns policy customers send goods back period",
        (
            "what does the returns policy say",
            "what period does the returns policy give customers to send goods back",
        ),
    ),
    "press": Policy(
        "Press and news procedure",
        "The press procedure routes every news inquiry to communications within {v}.",
        "Staff do not comment on contracts, prices or persons, not even off the record. The "
        "communications team answers or declines in writing and keeps a log. Interviews are "
        "prepared with the legal department. Photographs of sites need a release by the safety "
        "officer because of protected installations that may be visible.",
        (1, 2, 3, 4),
        " hours",
        "press procedure news inquiry routed to communications",
        (
            "what does the press procedure say about news inquiries",
            "how does the press procedure handle a news inquiry",
        ),
    ),
    "continuity": Policy(
        "Business continuity plan",
        "The continuity plan aims to restore order processing within {v} of an outage.",
        "Paper forms for two days lie in every warehouse. The second data centre takes over by "
        "hand, after the head of operations has decided so. The plan is rehearsed twice a year, "
        "once without notice. After each rehearsal the list of telephone numbers is renewed and "
        "the weakest step is improved before the next one.",
        (4, 6, 8, 12, 24),
        " hours",
        "business continuity plan restore order processing outage",
        (
            "what does the continuity plan aim for after an outage of order processing",
            "within what time should the continuity plan restore order processing",
        ),
    ),
    "vehicles": Policy(
        "Vehicle policy",
        "The vehicle policy replaces company cars after {v} kilometres.",
        "Small electric cars are the default, and larger ones need a reason such as heavy tools. "
        "Private use is taxed and recorded in the logbook. Fines are paid by the driver. Damage "
        "is reported the same day with photographs, and the spare key stays with the fleet desk, "
        "which also keeps the service book.",
        (90000, 110000, 120000, 140000, 160000),
        "",
        "vehicle policy company cars replaced after kilometres",
        (
            "when does the vehicle policy replace company cars",
            "after what distance are company cars replaced under the vehicle policy",
        ),
    ),
    "overtime": Policy(
        "Working time guideline",
        "The working time guideline lets overtime be banked up to {v}.",
        "Overtime is ordered beforehand and never the rule. Banked time is taken within the year, "
        "as whole days where the shift allows it. Payout happens only when somebody leaves. Rest "
        "between two shifts is at least eleven hours, and the shift plan is published three weeks "
        "ahead so that families can plan too.",
        (30, 40, 50, 60, 80),
        " hours",
        "working time guideline overtime banked limit",
        (
            "what does the working time guideline say about banked overtime",
            "up to which limit does the working time guideline let overtime be banked",
        ),
    ),
    "complaints": Policy(
        "Complaint handling procedure",
        "The complaint procedure promises customers an answer within {v}.",
        "The first reply names a person and a date. Complaints about safety go to the safety "
        "officer the same hour. When we were wrong, the answer says so in its first sentence. "
        "Every month the ten most frequent causes are listed and one of them is removed for good, "
        "and the customer who reported it is told about it.",
        (2, 3, 4, 5, 7),
        " working days",
        "complaint handling procedure answer to customers promised",
        (
            "what answer does the complaint procedure promise customers",
            "within what time does the complaint handling procedure promise an answer",
        ),
    ),
}

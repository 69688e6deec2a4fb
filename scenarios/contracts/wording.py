"""How people ask: fragments that become a question alone, or one half of a double question."""

from __future__ import annotations

# family of lookups -> ways to ask for it (no question mark, lower case start)
SQL_ASKS: dict[str, tuple[str, ...]] = {
    "count_and_sum": (
        "how many contracts above {floor} euros did we sign in {year} with {region} providers, for "
        "what total amount",
        "what is the number of {region} contracts over {floor} euros from {year}, with their sum",
        "how many {year} contracts with {region} providers exceed {floor} euros, for what total",
    ),
    "category_total": (
        "what is the total amount of the {category} contracts signed in {year}",
        "how much did all {category} contracts of {year} sum up to",
        "what total did we commit to {category} contracts in {year}",
    ),
    "provider_count": (
        "how many contracts did we sign with {provider} in {year}",
        "what number of contracts from {year} belongs to {provider}",
        "how many times did {provider} get a contract in {year}",
    ),
    "overdue_total": (
        "how many payments to {region} providers are overdue, for what total amount",
        "what is the number of overdue payments for {region} contracts, with their sum",
        "how many {region} payments are overdue, with what total",
    ),
    "terminated_count": (
        "how many {region} contracts from {year} were terminated",
        "what number of contracts signed in {year} with {region} providers has status terminated",
        "how many of the {year} contracts in region {region} ended in termination",
    ),
    "provider_spread": (
        "how many different providers got {category} contracts in {year}",
        "across how many providers were the {category} contracts of {year} spread",
        "what is the number of distinct {category} providers with contracts in {year}",
    ),
    "slow_payments": (
        "how many payments to {provider} took more than {days} days",
        "what is the number of {provider} payments that needed over {days} days",
        "how many of our payments to {provider} were slower than {days} days",
    ),
    "top_provider": (
        "which {region} provider had the largest total contract amount in {year}",
        "which provider in region {region} received the highest sum of contracts in {year}",
        "who leads the {year} ranking of {region} providers by total contract amount",
    ),
    "largest_contract": (
        "which {category} contract signed in {year} has the largest amount",
        "what is the title of the biggest {category} contract by amount in {year}",
        "which single {category} contract of {year} has the highest amount",
    ),
    "most_overdue": (
        "which {region} provider has the largest total of overdue payments",
        "to which provider in region {region} do we owe the highest overdue amount",
        "which {region} provider leads by sum of overdue payments",
    ),
}
SQL_THOUGHTS: dict[str, str] = {
    "count_and_sum": "Exact count and sum over filtered contract records are needed.",
    "category_total": "An exact sum over the contract records of one category is needed.",
    "provider_count": "An exact count of the contract records of one provider is needed.",
    "overdue_total": "Exact count and sum of the overdue payment records are needed.",
    "terminated_count": "An exact count of contract records with one status is needed.",
    "provider_spread": "A distinct count over contract records is needed.",
    "slow_payments": "An exact count of payment records over a limit is needed.",
    "top_provider": "First a ranking of providers by total amount is needed.",
    "largest_contract": "First the contract record with the largest amount is needed.",
    "most_overdue": "First a ranking of providers by total overdue amount is needed.",
}
# Second half of a question whose first half names the provider or contract only indirectly.
TOPIC_FOLLOW_UPS: dict[str, tuple[str, ...]] = {
    "penalty": (
        "what late-delivery penalty does its framework agreement set",
        "which penalty does its clause on late delivery name",
    ),
    "revision": (
        "which price revision cap does its framework agreement contain",
        "how far does its price revision clause let prices rise in a year",
    ),
    "payment": (
        "which payment term does its framework agreement set",
        "when do its invoices fall due according to the payment clause",
    ),
    "notice": (
        "what termination notice does its framework agreement require",
        "which notice does its clause on termination ask for",
    ),
    "warranty": (
        "what warranty does its framework agreement grant",
        "which warranty period does its clause name",
    ),
    "liability": (
        "which liability cap does its framework agreement contain",
        "where does its liability clause set the cap",
    ),
    "response": (
        "how fast must it respond to critical faults under its agreement",
        "which response to critical faults does its clause demand",
    ),
}
SPECIAL_FOLLOW_UPS: tuple[str, ...] = (
    "which special condition does its text contain",
    "what special condition was agreed in the contract document",
)
PRICE_ASKS: tuple[str, ...] = (
    "what is the current price of {commodity} today",
    "where does the public price of {commodity} stand today",
    "what does the market pay for {commodity} today",
)
RATE_ASKS: tuple[str, ...] = (
    "what is today's exchange rate of the euro to the {currency}",
    "how many units of the {currency} does one euro buy today",
)
NEWS_FOLLOW_UPS: tuple[str, ...] = (
    "what is the latest news about that company",
    "what did the press report about it recently",
    "which recent news has been published about it",
)
REGULATION_ASKS: tuple[str, ...] = (
    "whom does the recently published {regulation} cover",
    "what has to be known today about the scope of the new public {regulation}",
)


def question(*parts: str) -> str:
    """One sentence with a question mark; several parts are joined by ", and"."""
    text = ", and ".join(parts)
    return f"{text[0].upper()}{text[1:]}?"

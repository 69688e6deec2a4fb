"""How people ask: fragments that become a question alone, or one half of a double question."""

from __future__ import annotations

# family of records -> ways to ask for it (no question mark, lower case start)
SQL_ASKS: dict[str, tuple[str, ...]] = {
    "amount_count": (
        "how many contracts exceed {floor} euros",
        "what is the number of contracts above {floor} euros",
        "how many of our contracts are worth more than {floor} euros",
    ),
    "slow_count": (
        "how many payments took more than {days} days",
        "what is the number of payments that needed over {days} days",
        "how many of our payments were slower than {days} days",
    ),
    "year_total": (
        "what total amount do the contracts of {year} sum up to",
        "what is the sum of all contracts signed in {year}",
        "what total did we commit to contracts in {year}",
    ),
    "category_sum": (
        "what is the total amount of all {category} contracts",
        "how much do all {category} contracts sum up to",
        "what total have we committed to {category} contracts so far",
    ),
    "contracts_of": (
        "how many contracts have we signed with {provider}",
        "what number of contracts belongs to {provider}",
        "how many times did {provider} get a contract",
    ),
    "provider_total": (
        "what is the total amount of all contracts with {provider}",
        "how much do our contracts with {provider} sum up to",
        "what total have we committed to {provider} so far",
    ),
    "contract_amount": (
        "what is the amount of contract {title}",
        "for what amount in euros was contract {title} signed",
        "what amount do our records give for contract {title}",
    ),
    "contract_provider": (
        "what is the name of the provider of contract {title}",
        "which provider holds contract {title}",
        "with which provider did we sign contract {title}",
    ),
    "contract_title": (
        "what is the title of contract number {contract_id}",
        "which title belongs to contract number {contract_id}",
        "how is contract number {contract_id} named",
    ),
    "year_largest": (
        "which provider got the contract with the largest amount in {year}",
        "who holds our largest contract of {year} by amount",
        "with which provider did we sign the highest contract amount of {year}",
    ),
    "count_and_sum": (
        "how many contracts above {floor} euros did we sign in {year} with {region} providers, for "
        "what total amount",
        "what is the number of {region} contracts over {floor} euros from {year}, with their sum",
        "how many {year} contracts with {region} providers exceed {floor} euros, for what total",
    ),
    "country_count": (
        "how many contracts did we sign with providers in {country}",
        "what number of contracts belongs to providers from {country}",
        "how many of our contracts are with providers based in {country}",
    ),
    "overdue_total": (
        "how many payments to {region} providers are overdue, for what total amount",
        "what is the number of overdue payments to {region} providers, with their sum",
        "how many {region} payments are overdue, with what total",
    ),
    "top_provider": (
        "which {region} provider had the largest total contract amount in {year}",
        "which provider in region {region} received the highest sum of contracts in {year}",
        "who leads the {year} ranking of {region} providers by total contract amount",
    ),
    "most_overdue": (
        "which {region} provider has the largest total of overdue payments",
        "to which provider in region {region} do we owe the highest overdue amount",
        "which {region} provider leads by sum of overdue payments",
    ),
}
# Families that a workload goes through in turn: mostly short ones, so that a thought and its call
# are about 30 tokens, as the seed assumes.
ALONE = (
    "amount_count",
    "provider_total",
    "count_and_sum",
    "slow_count",
    "contracts_of",
    "country_count",
    "contract_amount",
    "category_sum",
)
FIRST = (  # what they find names the provider or contract of the next call
    "contract_provider",
    "contract_title",
    "year_largest",
    "contract_title",
    "contract_provider",
    "top_provider",
    "contract_provider",
    "contract_title",
)
BEFORE_NEWS = ("contract_provider", "year_largest", "contract_provider", "most_overdue")
BESIDE = (
    "amount_count",
    "provider_total",
    "slow_count",
    "year_total",
    "contracts_of",
    "amount_count",
    "slow_count",
    "overdue_total",
    "category_sum",
)
SQL_THOUGHTS: dict[str, str] = {
    "amount_count": "Count those contracts.",
    "slow_count": "Count those payments.",
    "year_total": "Sum the amounts.",
    "category_sum": "Sum the amounts.",
    "contracts_of": "Count the contracts.",
    "provider_total": "Sum the amounts.",
    "contract_amount": "Need the exact amount.",
    "contract_provider": "Find the name of its provider.",
    "contract_title": "Find its name in the table.",
    "year_largest": "Find the largest amount.",
    "count_and_sum": "Need exact count and sum.",
    "country_count": "Need the exact count.",
    "overdue_total": "Need exact count and sum.",
    "top_provider": "Rank providers by total amount.",
    "most_overdue": "Rank total overdue amounts.",
}
CLAUSE_THOUGHT = "Now the clause text."
SPECIAL_THOUGHT = "Now the condition's text."
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

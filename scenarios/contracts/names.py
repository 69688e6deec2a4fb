"""Names and kinds that the company and its public web are made of. Any likeness is chance."""

from pathlib import Path


def words(name: str) -> list[str]:
    """The words of words/NAME.txt: provider, title_first or title_second."""
    path = Path(__file__).parent / "words" / f"{name}.txt"
    return path.read_text(encoding="utf-8").split()


COUNTRIES = {
    "EU": ("Germany", "France", "Spain", "Italy", "Netherlands", "Poland"),
    "UK": ("United Kingdom",),
    "US": ("United States",),
    "APAC": ("Japan", "Singapore", "Australia"),
    "LATAM": ("Chile", "Brazil"),
}
REGION_SHARES = {"EU": 0.52, "UK": 0.12, "US": 0.18, "APAC": 0.12, "LATAM": 0.06}
# sector -> (last word of a provider's name, category of its contracts)
SECTORS = {
    "cabling": ("Cables", "cabling"),
    "logistics": ("Logistics", "transport"),
    "metals": ("Metals", "raw materials"),
    "energy": ("Energy", "energy"),
    "software": ("Software", "software licences"),
    "maintenance": ("Maintenance", "maintenance"),
    "packaging": ("Packaging", "packaging"),
    "security": ("Security", "site security"),
    "consulting": ("Consulting", "consulting"),
    "chemicals": ("Chemicals", "chemicals"),
}
# commodity -> (unit of its public price, typical price, step of the price)
COMMODITIES = {
    "copper": ("US dollars per tonne", 9400, 1),
    "aluminium": ("US dollars per tonne", 2450, 1),
    "nickel": ("US dollars per tonne", 16100, 5),
    "zinc": ("US dollars per tonne", 2780, 1),
    "tin": ("US dollars per tonne", 31200, 5),
    "steel rebar": ("euros per tonne", 612, 1),
    "polyethylene": ("euros per tonne", 1180, 1),
    "kraft paper": ("euros per tonne", 735, 1),
    "sulphuric acid": ("euros per tonne", 164, 1),
    "natural rubber": ("US dollars per tonne", 1890, 1),
    "Brent crude oil": ("US cents per barrel", 7940, 1),
    "diesel fuel": ("euros per 1000 litres", 1312, 1),
    "natural gas": ("euro cents per megawatt hour", 3370, 1),
    "baseload electricity": ("euro cents per megawatt hour", 8420, 1),
    "carbon allowances": ("euro cents per tonne", 7210, 1),
    "container freight": ("US dollars per forty-foot container", 2260, 1),
}
CURRENCIES = {
    "US dollar": 11420,
    "British pound": 8460,
    "Japanese yen": 1694200,
    "Swiss franc": 9380,
    "Chilean peso": 10612000,
    "Singapore dollar": 14710,
    "Polish zloty": 42630,
    "Brazilian real": 62150,
}
PORTS = ("Rotterdam", "Hamburg", "Antwerp", "Valencia", "Genoa", "Gdansk", "Marseille", "Bilbao")

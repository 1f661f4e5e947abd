"""Places: streets, towns and postal addresses, most of them on no map."""

from __future__ import annotations

from hushdoc_training.invented.random_draws import Dice
from hushdoc_training.invented.wordlist import terms, words

_STREETS = words(
    """
    Abbey Acorn Alder Amber Apple Arbor Ash Aspen Avon Bank Barley Baxter Bay Beacon Beech Bell
    Birch Blackwell Bluff Bridge Broad Brook Cable Canal Canterbury Castle Cedar Center Chapel
    Charles Cherry Chestnut Church Clay Clifton Clover College Commerce Commercial Cooper Copper
    Corporate Court Cross Crown Cypress Dairy Dock Dover Eagle East Elm Enterprise Factory
    Fairview Falcon Farm Ferry Fifth First Forest Fourth Foundry Fox Franklin Front Garden Gateway
    George Glen Grand Granite Grant Green Grove Hamilton Harbor Harvest Hawthorn Hazel Heritage
    Hickory High Highland Hill Holly Hudson Industrial Innovation Iron Ivy Jackson James Jefferson
    Juniper King Lake Lakeview Laurel Liberty Lincoln Linden Lock Lodge London Magnolia Main Manor
    Maple Market Meadow Mill Mine Mission Monroe Mulberry North Oak Ocean Old Olive Orchard Orchid
    Oxford Pacific Park Peach Pearl Pier Pilgrim Pine Pioneer Pleasant Plum Poplar Port Post
    Prairie Prince Princess Prospect Quarry Queen Railway Regent Research Richmond Ridge River
    Rose Royal Salem Saw Second Seventh Silver Sixth South Spring Spruce Stadium State Station
    Sterling Stone Summit Sunset Sycamore Tannery Technology Temple Tenth Third Tower Union
    University Valley Victoria Village Vine Vista Walnut Washington Water Wellington West Wharf
    White Willow Winding Windsor Wood York
    """
)
_WAYS = words(
    """
    Street St. Avenue Ave. Road Rd. Lane Drive Dr. Boulevard Blvd. Place Court Way Parkway Square
    Terrace Highway Circle Row Crescent Quay Close
    """
)
_TOWN_HEADS = words(
    """
    Ash Bal Barn Bex Black Bram Brent Brook Burn Cal Cam Carl Castle Chel Clay Cold Cran Dal Dan
    Der Dun East Ed El Fair Fal Farn Fern Fleet Ford Gains Glen Grant Green Hal Ham Hart Hazel
    Hill Hol Hun Kel Ken Kings Lake Lang Lin Mar May Mel Mid Mill Mor New North Nor Oak Old Orch
    Pen Pine Port Quin Rad Red Ridge Rock Rose Salt Sand Shel Silver South Spring Stan Stone Strat
    Sum Sun Tam Thorn Tor Up Wal War Wat Wells West White Wil Win Wood
    """
)
_TOWN_TAILS = words(
    """
    berg borough bridge brook burg burn bury by castle cester creek croft dale den don fax fell
    field ford gate ham haven hurst land ley low mere mont more mouth ness point pool port ridge
    sea shire side stead stoke ston ton vale view ville wald ward water well wich wick wood worth
    """
)
_TOWN_FRONTS = ("", "", "", "", "", "", "", "", "Port ", "Fort ", "New ", "Lake ", "Mount ", "St. ")
TOWN_NAMES = tuple(
    f"{_TOWN_HEADS[place % 79]}{_TOWN_TAILS[place // 79 + place % 7 * 3]}" for place in range(200)
)
"""Two hundred towns, all different, none of them a surname."""

STATES = words(
    """
    AL AK AZ AR CA CO CT DE FL GA HI ID IL IN IA KS KY LA ME MD MA MI MN MS MO MT NE NV NH NJ NM
    NY NC ND OH OK OR PA RI SC SD TN TX UT VT VA WA WV WI WY
    """
)
STATE_NAMES = terms(
    """
    Alabama, Arizona, Arkansas, California, Colorado, Connecticut, Delaware, Florida, Georgia,
    Idaho, Illinois, Indiana, Iowa, Kansas, Kentucky, Louisiana, Maine, Maryland, Massachusetts,
    Michigan, Minnesota, Missouri, Montana, Nebraska, Nevada, New Jersey, New Mexico, New York,
    North Carolina, Ohio, Oklahoma, Oregon, Pennsylvania, South Carolina, Tennessee, Texas, Utah,
    Vermont, Virginia, Washington, West Virginia, Wisconsin
    """
)
COUNTRIES = terms(
    """
    United States, United Kingdom, Canada, Germany, France, Switzerland, Netherlands, Belgium,
    Ireland, Australia, Austria, Spain, Italy, Sweden, Norway, Denmark, Finland, Portugal, Poland,
    Japan, Singapore, Brazil, Mexico, India, South Africa, New Zealand, Hong Kong, Greece, Turkey,
    Israel
    """
)


def town(dice: Dice) -> str:
    """Returns the name of a town."""
    return dice.pick(_TOWN_FRONTS) + dice.pick(_TOWN_HEADS) + dice.pick(_TOWN_TAILS)


def street(dice: Dice) -> str:
    """Returns a street and a house number."""
    shape = dice.unit()
    if shape < 0.06:
        return f"P.O. Box {dice.integer(10, 9999)}"
    house = dice.integer(1, 60) if shape < 0.4 else dice.integer(100, 9800)
    named = f"{house} {dice.pick(_STREETS)} {dice.pick(_WAYS)}"
    if shape > 0.93:
        part = dice.pick(("Suite", "Unit", "Room", "Floor", "Bldg."))
        return f"{named}, {part} {dice.integer(1, 400)}"
    return named


def town_line(dice: Dice, country: str = "US") -> str:
    """Returns town, region and postal code as that country writes them."""
    if country == "US":
        return f"{town(dice)}, {dice.pick(STATES)} {dice.integer(10000, 99899)}"
    if country == "GB":
        code = f"{dice.letters(dice.integer(1, 2))}{dice.integer(1, 29)} {dice.integer(1, 9)}"
        return f"{town(dice)} {code}{dice.letters(2)}"
    if country == "CA":
        return f"{town(dice)}, {dice.pick(('ON', 'BC', 'AB', 'NS', 'MB'))} {_canadian(dice)}"
    return f"{dice.integer(10000, 98999)} {town(dice)}"


def address(dice: Dice, country: str = "US") -> str:
    """Returns a postal address of two lines."""
    return f"{street(dice)}\n{town_line(dice, country)}"


def _canadian(dice: Dice) -> str:
    first = f"{dice.letters(1)}{dice.integer(1, 9)}{dice.letters(1)}"
    return f"{first} {dice.integer(1, 9)}{dice.letters(1)}{dice.integer(1, 9)}"

"""Goods: what shops, restaurants and tradesmen sell, as their papers call it."""

from __future__ import annotations

from hushdoc_training.invented import phrases, qualities
from hushdoc_training.invented.random_draws import Dice
from hushdoc_training.invented.wordlist import terms

_GROCERIES = terms(
    """
    whole milk, skim milk, butter, cheddar, cream cheese, yogurt, eggs, bread, rye bread, bagels,
    croissant, muffin, apples, pears, bananas, oranges, lemons, grapes, melon, peaches, plums,
    berries, avocado, tomatoes, onions, potatoes, carrots, celery, spinach, lettuce, cucumber,
    peppers, mushrooms, garlic, ginger, corn, beans, peas, broccoli, cabbage, rice, pasta,
    noodles, flour, sugar, salt, pepper, olive oil, vinegar, mustard, ketchup, mayo, soup, tuna,
    salmon, shrimp, chicken breast, ground beef, bacon, ham, sausage, turkey, orange juice,
    apple juice, cola, lemonade, mineral water, coffee beans, green tea, black tea, cocoa, beer,
    red wine, white wine, chips, crackers, cookies, chocolate, candy, gum, nuts, raisins, cereal,
    oatmeal, honey, jam, peanut butter, ice cream, frozen pizza, dog food, cat litter,
    paper towels, toilet paper, tissues, napkins, soap, shampoo, toothpaste, detergent, sponges,
    trash bags, batteries, light bulbs, candles, foil
    """
)
_DISHES = terms(
    """
    house salad, caesar salad, greek salad, tomato soup, onion soup, clam chowder, garlic bread,
    bruschetta, spring rolls, nachos, hummus, burger, cheeseburger, veggie burger, club sandwich,
    grilled cheese, BLT, fish and chips, steak frites, rib eye, pork chop, roast chicken,
    lamb curry, pad thai, fried rice, ramen, sushi set, tempura, lasagna, carbonara, ravioli,
    risotto, margherita, pepperoni pizza, quesadilla, burrito, tacos, falafel, kebab, omelette,
    pancakes, waffles, french toast, fries, side salad, mashed potatoes, coleslaw, cheesecake,
    apple pie, tiramisu, brownie, sorbet, fruit cup, espresso, latte, cappuccino, americano,
    mocha, iced tea, hot chocolate, lemonade, sparkling water, cola, draft beer, pale ale, stout,
    house red, house white, prosecco, gin and tonic, margarita, mojito, kids menu,
    soup of the day, daily special
    """
)
_WARES = terms(
    """
    stapler, paper clips, copy paper, envelopes, folders, binders, markers, pencils, ball pens,
    notebooks, toner cartridge, ink cartridge, desk lamp, office chair, filing cabinet,
    whiteboard, calculator, scissors, tape dispenser, hammer, screwdriver set, wood screws,
    wall plugs, nails, drill bits, paint roller, wall paint, sandpaper, garden hose, rake, shovel,
    flower pots, potting soil, seeds, extension cord, power strip, USB cable, keyboard, mouse,
    monitor, headset, router, memory card, hard drive, webcam, printer, phone case, charger,
    T-shirt, jeans, socks, scarf, gloves, jacket, sneakers, belt, towel, pillow, blanket,
    curtains, mug, plates, cutlery set, frying pan, kettle, toaster, vacuum bags, picture frame,
    mirror, clock, umbrella, backpack, novel, cookbook, greeting card, gift wrap, puzzle, ball,
    yoga mat, water bottle, bike light, motor oil
    """
)
_SERVICES = terms(
    """
    consulting, installation, maintenance, design, translation, printing, catering, cleaning,
    transport, delivery, training, repair, inspection, support, hosting, licence, subscription,
    rental, assembly, legal advice, audit, bookkeeping, advertising, photography, editing,
    programming, data entry, project management, security, gardening, painting, plumbing,
    electrical work, flooring, roofing, survey, storage, packing, moving, window cleaning,
    waste disposal, calibration, testing, engineering, drafting, freight, customs handling
    """
)
_SPANS = (
    "per hour",
    "per day",
    "flat rate",
    "phase 1",
    "phase 2",
    "monthly fee",
    "1 year",
    "extra hours",
)
_SIZES = terms(
    """
    500g, 1kg, 250 ml, 1L, 2L, 6pk, 12 ct, 0.5 lb, 750ml, XL, M, S, dz, 330ml
    """
)


def sold(dice: Dice, trade: str) -> str:
    """Returns what a line of an invoice may be for."""
    manner = dice.unit()
    if manner < 0.3:
        text = dice.pick(_WARES)
        if dice.chance(0.5):
            text = f"{text}, {dice.pick(qualities.COLOURS + qualities.MATERIALS)}"
        if dice.chance(0.3):
            text = f"{text} {dice.letters(dice.integer(1, 2))}{dice.digits(dice.integer(1, 4))}"
    elif manner < 0.6:
        text = dice.pick(_SERVICES)
        if dice.chance(0.5):
            text = f"{phrases.noun(dice, trade)} {text}"
        if dice.chance(0.45):
            text = f"{text} {dice.pick(_SPANS)}"
    else:
        text = phrases.product(dice, trade)
    return text[:1].upper() + text[1:]


def bought(dice: Dice, dishes: bool) -> str:
    """Returns what a line of a receipt may be for."""
    if dishes:
        return dice.pick(_DISHES)
    text = dice.pick(_GROCERIES if dice.chance(0.65) else _WARES)
    manner = dice.unit()
    if manner < 0.25:
        return f"{text} {dice.pick(_SIZES)}"
    if manner < 0.45:
        return f"{phrases.brand(dice)} {text}"
    if manner < 0.55:
        return f"{dice.pick(('organic', 'fresh', 'large', 'small', 'premium', 'light'))} {text}"
    return text

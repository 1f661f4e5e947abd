"""Names of people, invented from common given names and surnames."""

from __future__ import annotations

from hushdoc_training.invented.random_draws import Dice
from hushdoc_training.invented.wordlist import terms, words

GIVEN = words(
    """
    Aaron Ada Adele Adrian Agnes Alan Albert Alec Alexandra Alfred Alice Alicia Allen Alma Alvin
    Amanda Amelia Amir Amy Ana Andrea Andrew Angela Anita Ann Anna Annette Anthony Antonio April
    Arlene Arnold Arthur Asha Audrey Austin Barbara Barry Beatrice Ben Benjamin Bernard Bernice
    Beth Betty Beverly Bill Blake Bob Bonnie Brad Brenda Brian Bruce Bryan Calvin Camille Carl
    Carla Carlos Carmen Carol Caroline Catherine Cecil Charles Charlotte Cheryl Chester Chris
    Christine Claire Clara Clarence Claudia Clifford Clyde Colin Connie Craig Crystal Curtis
    Cynthia Dale Dana Daniel Darlene Darren David Dawn Dean Deborah Dennis Derek Diana Diane
    Dolores Donald Donna Dora Doris Dorothy Douglas Duane Earl Eddie Edgar Edith Edna Edward
    Eileen Elaine Eleanor Elena Elizabeth Ella Ellen Elmer Elsie Emily Emma Eric Erica Ernest
    Esther Ethel Eugene Eva Evelyn Faye Felix Fern Florence Floyd Frances Frank Fred Gail Gary
    Gene George Gerald Geraldine Gilbert Gina Gladys Glenn Gloria Gordon Grace Greg Gregory Gwen
    Hannah Harold Harriet Harry Harvey Hassan Hazel Heather Heidi Helen Henry Herbert Herman Hilda
    Holly Howard Hugh Ian Ida Ingrid Irene Iris Irma Isaac Ivan Jack Jackie James Jamie Jan Jane
    Janet Janice Jasmine Jason Jay Jean Jeff Jennifer Jerome Jerry Jesse Jill Jim Jo Joan Joanne
    Joe Joel John Jonathan Jorge Jose Joseph Josephine Joyce Juan Juanita Judith Judy Julia Julian
    Julie June Karen Karl Kate Katherine Kathy Kay Keith Kelly Ken Kenneth Kevin Kim Kirk Kurt
    Kyle Larry Laura Lauren Laurie Lawrence Leah Lee Leila Lena Leo Leon Leonard Leroy Leslie
    Lester Lewis Lillian Linda Lisa Lloyd Lois Lorenzo Lori Lorraine Louis Louise Lucas Lucille
    Lucy Luis Lydia Lyle Lynn Mabel Madeline Mae Manuel Marc Marcia Marco Marcus Margaret Maria
    Marian Marie Marilyn Mario Marion Marjorie Mark Marlene Marsha Martha Martin Marvin Mary
    Matthew Maureen Maurice Max Maxine May Megan Melanie Melissa Melvin Michael Michele Mildred
    Milton Miriam Mitchell Mona Monica Morris Myra Myrtle Nadia Nancy Naomi Natalie Nathan Neil
    Nellie Nicholas Nicole Nina Nora Norma Norman Olga Olive Oliver Omar Oscar Otto Owen Pamela
    Patricia Patrick Paul Paula Pauline Pearl Pedro Peggy Penny Percy Perry Peter Philip Phyllis
    Priya Rachel Ralph Ramon Randall Raul Ray Raymond Rebecca Regina Rhonda Rick Rita Robert
    Roberta Robin Rodney Roger Roland Ron Ronald Rosa Rose Rosemary Ross Roy Ruby Rudolph Russell
    Ruth Ryan Sally Sam Samuel Sandra Sara Scott Sean Seth Sharon Shawn Sheila Shirley Sidney
    Sofia Sonia Spencer Stacy Stanley Stella Stephanie Stephen Steve Stuart Sue Susan Sylvia
    Tamara Tara Ted Teresa Terry Thelma Theodore Theresa Thomas Tim Timothy Tina Todd Tom Tony
    Tracy Troy Valerie Vanessa Vera Vernon Veronica Vicki Victor Vincent Viola Violet Virgil
    Virginia Vivian Wade Wallace Walter Wanda Warren Wayne Wendy Wesley Wilbur Willard William
    Willie Wilma Winifred Yolanda Yvonne Zoe
    """
)

SURNAMES = words(
    """
    Abbott Acosta Adair Adams Ahmed Albright Alder Aldridge Allen Alvarez Ames Anders Anderson
    Archer Armitage Arnold Ashdown Atkins Austin Avery Ayers Bachman Bailey Bain Baker Baldwin
    Ballard Banks Barber Barker Barlow Barnes Barrett Barton Bates Bauer Baxter Beale Beck Becker
    Bell Bender Bennett Benson Berg Berry Best Bishop Black Blair Blake Bloom Bond Booth Bowen
    Bowers Bowman Boyd Bradley Brady Brandt Brennan Brewer Briggs Brock Brooks Brown Browning
    Bryant Buck Burgess Burke Burnett Burns Burton Bush Butler Byers Byrd Cain Caldwell Calhoun
    Cameron Campbell Cantrell Carey Carlson Carpenter Carr Carroll Carson Carter Carver Casey
    Castillo Chambers Chan Chandler Chang Chapman Chavez Chen Choi Christensen Clark Clay Clements
    Cobb Cochran Coffey Cohen Cole Collier Collins Combs Conley Connor Conrad Conway Cook Cooper
    Copeland Cortez Costa Cowan Cox Craig Crane Crawford Cross Cruz Cummings Curry Curtis Dalton
    Daly Daniels Davenport Davidson Davis Dawson Decker Delaney Dempsey Dennis Desai Diaz Dickson
    Dillon Dixon Dodd Dolan Donovan Dougherty Doyle Drake Dreyer Dudley Duffy Duncan Dunlap Dunn
    Duran Dyer Eaton Edwards Eklund Elliott Ellis Emerson English Erickson Espinoza Evans Everett
    Farley Farmer Farrell Faulkner Ferguson Fernandez Field Finch Fischer Fisher Fitzgerald
    Fleming Fletcher Flores Flynn Foley Forbes Ford Foster Fowler Fox Francis Frank Franklin
    Frazier Freeman French Frost Fry Fuller Gallagher Galloway Garcia Gardner Garrett Garza Gates
    Gentry George Gibbs Gibson Gilbert Giles Gill Glass Glenn Glover Gomez Goodman Goodwin Gordon
    Gould Graham Grant Graves Gray Green Greer Gregory Griffin Grimes Gross Gupta Guthrie Haas
    Hale Haley Hall Hamilton Hammond Hampton Hancock Hansen Hardin Harding Hardy Harmon Harper
    Harrington Harris Hart Hartman Harvey Hastings Hawkins Hayes Heath Hebert Hendricks Henry
    Henson Herman Hernandez Herrera Hess Hicks Higgins Hill Hines Hobbs Hodge Hoffman Hogan Holden
    Holland Holloway Holmes Holt Hood Hooper Hopkins Horne Horton House Howard Howe Howell Hubbard
    Huber Hudson Huff Hughes Hull Hunt Hunter Hurley Hurst Hutchins Ibarra Ingram Irwin Ito
    Jackson Jacobs James Jarvis Jennings Jensen Jimenez Johansson Johns Johnson Jones Jordan
    Joseph Joyce Kane Kaufman Keane Keith Keller Kelley Kemp Kennedy Kent Kerr Khan Kim Kirby Kirk
    Klein Kline Knight Knox Koch Kowalski Kramer Kumar Lamb Lambert Lane Lang Larsen Larson Lawson
    Leach Lee Leonard Lester Levine Levy Lewis Lindgren Lindsey Little Livingston Lloyd Logan Long
    Lopez Lowe Lowery Lucas Lynch Lyons Macdonald Mack Madden Mahoney Maldonado Malone Mann
    Manning Marks Marsh Marshall Martin Martinez Mason Massey Mathews Maxwell May Mayer Maynard
    McBride McCabe McCall McCarthy McClain McCoy McDaniel McGee McGuire McIntyre McKay McKenna
    McLean McNeil Mead Medina Melton Mendez Mercer Merritt Meyer Middleton Miles Miller Mills
    Miranda Mitchell Monroe Montoya Moody Moon Moore Mora Morales Moran Moreno Morgan Morris
    Morrow Morse Morton Mosley Moss Mueller Mullins Munoz Murphy Murray Myers Nakamura Nash
    Navarro Neal Nelson Newman Newton Nguyen Nichols Nielsen Nixon Noble Nolan Norman Norris
    Norton Novak Nunez Obrien Ochoa Oconnor Odom Ogden Oliver Olsen Olson Oneal Ortega Ortiz
    Osborne Owens Pace Padilla Page Palmer Park Parker Parks Parrish Parsons Patel Patrick
    Patterson Patton Payne Pearce Pearson Peck Pena Perkins Perry Peters Petersen Phelps Phillips
    Pickett Pierce Pittman Pollard Poole Pope Porter Potter Potts Powell Powers Pratt Preston
    Price Prince Proctor Pruitt Quinn Ramirez Ramos Ramsey Randall Randolph Rasmussen Ray Reed
    Reese Reeves Reid Reilly Reyes Reynolds Rhodes Rice Rich Richards Richardson Riley Rios Ritter
    Rivera Roach Robbins Roberts Robinson Rocha Rogers Rojas Roman Romero Rosales Rose Ross Roth
    Rowe Rowland Roy Rubin Ruiz Rush Russell Russo Ryan Salas Salazar Sampson Sanchez Sanders
    Sanford Santos Sato Saunders Savage Sawyer Schaefer Schmidt Schneider Schroeder Schultz
    Schwartz Scott Sears Sellers Serrano Sexton Shaffer Shah Shannon Sharp Shaw Shea Shelton
    Shepherd Sherman Shields Short Silva Simmons Simon Simpson Sims Singh Skinner Slater Sloan
    Small Smith Snow Snyder Solis Solomon Sosa Sparks Spencer Stafford Stanley Stanton Stark
    Steele Stein Stephens Stevens Stewart Stokes Stone Stout Strickland Strong Stuart Suarez
    Sullivan Summers Sutton Swanson Sweeney Sykes Tanaka Tanner Tate Taylor Terrell Terry Thomas
    Thompson Thornton Todd Torres Townsend Tran Travis Trevino Trujillo Tucker Turner Tyler
    Underwood Valdez Valencia Vance Vargas Vasquez Vaughan Vega Velez Vincent Vogel Wade Wagner
    Walker Wall Wallace Waller Walsh Walters Walton Wang Ward Ware Warner Warren Washington Waters
    Watkins Watson Watts Weaver Webb Weber Webster Weeks Weiss Welch Wells Werner West Wheeler
    Whitaker White Whitfield Wiggins Wilcox Wilder Wiley Wilkins Wilkinson Williams Willis Wilson
    Winters Wise Wolf Wong Wood Woodard Woods Woodward Wright Wu Wyatt Yang Yates York Young
    Zamora Zhang Zimmerman
    """
)

TITLES = ("Mr.", "Mrs.", "Ms.", "Dr.", "Prof.", "Miss")
DEGREES = terms(
    """
    Ph.D., M.D., Jr., Esq., CPA, P.E., M.Sc., III, R.N.
    """
)


def name(dice: Dice) -> str:
    """Returns a person's full name in one of the usual spellings."""
    given, surname = dice.pick(GIVEN), dice.pick(SURNAMES)
    shape = dice.unit()
    if shape < 0.40:
        return f"{given} {surname}"
    if shape < 0.58:
        return f"{given} {dice.letters(1)}. {surname}"
    if shape < 0.74:
        return f"{given[0]}. {dice.letters(1)}. {surname}"
    if shape < 0.82:
        return f"{given[0]}. {surname}"
    if shape < 0.88:
        return f"{surname}, {given} {dice.letters(1)}."
    if shape < 0.94:
        return f"{dice.pick(TITLES)} {given} {surname}"
    return f"{given} {surname}, {dice.pick(DEGREES)}"


def initials(dice: Dice) -> str:
    """Returns a person's initials, as typists note them."""
    made = dice.letters(dice.integer(2, 3))
    return dice.pick((made, made.lower(), ".".join(made) + "."))

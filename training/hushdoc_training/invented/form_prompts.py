"""Prompts: what business forms ask for, sorted by the kind of value that answers."""

from __future__ import annotations

from collections.abc import Mapping

from hushdoc_training.invented.wordlist import terms

PLAIN: Mapping[str, tuple[str, ...]] = {
    "person": terms(
        """
        Name, Full name, Contact, Contact person, Attention, Attn., Prepared by, Approved by,
        Requested by, Submitted by, Reviewed by, Authorized by, Ordered by, Received by,
        Checked by, Reported by, Issued by, Written by, Typed by, Completed by, Applicant,
        Originator, Initiator, Requester, Owner, Author, Sender, Recipient, Witness, Operator,
        Analyst, Investigator, Manager, Supervisor, Last name first, Name of applicant,
        Name (print), Name and title, Salesman, Spouse, Beneficiary, Patient, Insured, Student,
        Instructor, Driver, Inspector, Buyer, Agent, Emergency contact, Next of kin,
        Name of contact, Proposed by, c/o, Interviewer, Respondent, Sales rep., Acct. exec.,
        Account manager, Architect, Attorney, Case worker, Chairperson, Contact name,
        Customer name, Dispatcher, Donor, Employee name, Father's name, Maiden name,
        Mother's name, First name, Last name, Middle initial, Guardian, Host, Member,
        Name of owner, Observer, Officer, Payable to, Physician, Pick-up by, Presented by,
        Principal, Project leader, Purchaser, Referred by, Registrant, Reporter, Sampled by,
        Seller, Signed by, Speaker, Study director, Technician, Tested by, Traveler, User,
        Visitor, Attendees, Participants
        """
    ),
    "company": terms(
        """
        Company, Company name, Firm, Vendor, Supplier, Customer, Manufacturer, Employer, Client,
        Organization, Institution, Agency, Sponsor, Contractor, Ship to, Bill to, Sold to,
        Consignee, Shipper, Carrier, Bank, Insurer, Account name, Payee, Name of firm,
        Publication, Outlet, Station, Distributor, Chain, Retailer, School, Hospital, Via, Lessor,
        Lessee, Affiliation, Source, Supplier name, Performed at, Airline, Advertising agency,
        Broker, Builder, Business name, College, Consultant, Depository, Dealer, Exporter,
        Importer, Issuing bank, Laboratory, Law firm, Lender, Name of company, Operator, Printer,
        Producer, Publisher, Subcontractor, Trade name, University, Union, Warehouse, Wholesaler,
        Store name, Account
        """
    ),
    "date": terms(
        """
        Date, Date issued, Date received, Date submitted, Date required, Due date, Start date,
        End date, Effective date, Date of birth, Date prepared, Date of report, Ship date,
        Order date, Delivery date, Completion date, Date approved, Expiration date, Closing date,
        Date wanted, Date closed, Revised, Revision date, Hire date, Date of request, Date needed,
        Reply by, Date mailed, Date opened, Last updated, Deadline, Week ending, Date of meeting,
        Requested date, Original date, Test date, Insertion date, Admission date, Anniversary,
        As of, Date assigned, Date collected, Date completed, Date due, Date entered, Date filed,
        Date in, Date of hire, Date of injury, Date of loss, Date of order, Date of purchase,
        Date of service, Date of visit, Date out, Date paid, Date posted, Date printed,
        Date released, Date reviewed, Date sampled, Date shipped, Date signed, Date started,
        Date terminated, Date tested, Day, Discharge date, Event date, Inspection date,
        Invoice date, Issue date, Last revised, Loan date, Next review, On sale date, Promised,
        Proposed date, Publication date, Received, Recheck date, Reporting date, Sent,
        Target date, Valid until, Validity
        """
    ),
    "time": terms(
        """
        Time, Time in, Time out, Start time, Hour, Time received, Time of arrival, Departure,
        Meeting time
        """
    ),
    "code": terms(
        """
        No., Number, Reference, Ref., Our ref., Your ref., File, File no., Code, Account no.,
        Order no., P.O. no., Purchase order, Invoice no., Contract no., Project no., Job no.,
        Serial no., Control no., Case no., Policy no., Part no., Lot no., Batch no., Sample no.,
        Requisition no., Employee no., ID, Social Security no., License no., Form no., Permit no.,
        Model, Style no., Item no., Stock no., Docket no., Document no., Log no., Cost center,
        G/L code, Dept. no., Tax ID, Registration no., Study no., Zip, Zip code, Room, Box,
        Catalog no., Tracking no., Grant no., Authorization no., Notebook no., Run no.,
        Ticket no., Key, Account, Acct. no., Ad no., Amendment no., Approval no., Asset no.,
        Audit no., Badge no., Bank code, Bill no., Book no., Charge no., Check no., Claim no.,
        Class code, Compound no., Customer no., Deed no., Drawing no., EIN, Exhibit no.,
        Experiment no., Extension, Inventory no., Issue no., Location code, Mail stop, Member no.,
        Meter no., MSDS no., Number of contract, Patent no., Patient no., Phase, Plate no.,
        Protocol no., Purchase req., Quote no., Receipt no., Report no., Request no.,
        Revision no., Route code, S.S. no., Section no., Sheet no., Store no., Suite, Tag no.,
        Test no., Unit no., Vendor no., Version, Voucher no., W.O. no.
        """
    ),
    "amount": terms(
        """
        Amount, Total, Cost, Price, Budget, Total cost, Subtotal, Fee, Amount due, Balance,
        Unit cost, Estimated cost, Total amount, Salary, Value, Amount paid, Net, Gross, Tax,
        Freight, Deposit, Premium, Retail price, List price, Total budget, Amount requested,
        Original budget, Expenses, Commission, Rent, Year to date, Grand total, Cost per unit,
        Budget remaining, Advance, Rate, Payment, Insurance, Postage, Adjusted total, Allowance,
        Annual salary, Base price, Bonus, Capital, Cash advance, Co-op amount, Contract amount,
        Current value, Deductible, Down payment, Dues, Estimated value, Fine, Fixed costs,
        Full price, Hourly rate, Income, Labor, Lodging, Loss, Materials, Meals, Monthly payment,
        Net sales, Other costs, Overtime pay, Previous balance, Purchase price, Refund,
        Registration fee, Savings, Shipping, Surcharge, Total estimate, Total expenses, Travel,
        Tuition, Unit price, Variance, Wages
        """
    ),
    "count": terms(
        """
        Quantity, Qty., No. of pages, Pages, Number of copies, Copies, Units, Cartons, Pieces,
        Total units, Number of employees, Age, Years, Hours, Circulation, Size, Cases, Sheets,
        Number of stores, Count, No. of samples, Attendance, Volume, Total pages including cover,
        Sample size, Years of service, Beds, Boxes, Children, Copies needed, Credits, Days absent,
        Depth, Floors, Frequency, Grade, Headcount, Items, Lines, Mileage, Minutes,
        Number of days, Number of persons, On hand, Ordered, Passengers, Pallets, Rolls, Rooms,
        Score, Seats, Sets, Shipped, Shares, Total hours, Total number, Trips, Visits, Volumes,
        Weeks
        """
    ),
    "percent": terms(
        """
        Percent, Percentage, % of total, Share, Discount, Commission rate, Interest rate,
        Market share, % change, Response rate, Tax rate, Distribution %, Growth, Yield,
        Confidence level
        """
    ),
    "measure": terms(
        """
        Weight, Height, Length, Width, Temperature, Moisture, pH, Pressure, Density, Diameter,
        Viscosity, Thickness, Speed, Capacity, Voltage, Net weight, Gross weight, Dimensions,
        Average, Range, Concentration, Specific gravity, Distance, Mileage, Melting point,
        Boiling point, Flash point, Solubility, Humidity, Absorbance, Acidity, Alkalinity, Area,
        Blood pressure, Body weight, Burn rate, Caliper, Dose, Draft, Elevation, Flow rate,
        Frequency, Hardness, Intensity, Level, Load, Oven temp., Peak, Permeability, Porosity,
        Power, Pulse, Residue, Size, Strength, Tare, Tension, Time (min), Tolerance, Torque,
        Velocity, Vapor pressure
        """
    ),
    "phone": terms(
        """
        Phone, Telephone, Tel., Phone no., Telephone number, Fax, Fax no., Facsimile, Home phone,
        Business phone, Ext., Fax number, Mobile, Phone (day), Telex, Tel. no.,
        Area code and number, Night phone
        """
    ),
    "email": terms(
        """
        E-mail, Email, E-mail address, Internet, Web site
        """
    ),
    "address": terms(
        """
        Address, Home address, Mailing address, Street address, Business address, Location,
        Ship to, Billing address, Deliver to, Present address, Return to, Send to,
        Address of employer, Remit to, Site address
        """
    ),
    "place": terms(
        """
        City, Town, Place, Location, City and state, Place of birth, Region, Area, Division, Site,
        Plant, State, Country, County, District, Territory, Market, Port of entry, Destination,
        Origin, Office, Markets, Airport, Arrival, Birthplace, Building, Campus, Court,
        Delivery point, Department location, Floor, From, Jurisdiction, Meeting place,
        Nationality, Plant location, Port, Province, Room, Sales area, Shipped from, Station,
        Store location, Terminal, Township, Venue, Ward, Zone
        """
    ),
    "role": terms(
        """
        Title, Position, Occupation, Job title, Position title, Present position, Function, Rank,
        Job class
        """
    ),
    "department": terms(
        """
        Department, Dept., Division, Section, Unit, Group, Branch, Cost center, Routing,
        Functional area
        """
    ),
    "phrase": terms(
        """
        Subject, Re, Regarding, Project, Project title, Product, Type, Description, Item,
        Material, Brand, Category, Class, Status, Method, Title, Purpose, Event, Program,
        Objective, Terms, Terms of payment, Equipment, Reason, Source, Nature of business, Color,
        Shipping instructions, Grade, Kind, Theme, Activity, Format, Topic, Property, Species,
        Strain, Route, Specification, Packaging, Medium, Space, Caption, Brand name, Sample type,
        Chemical name, Trade name, Physical state, Appearance, Position, Promotion, Display,
        Issue, Process, Style, Ad size, Agreement, Animal, Assignment, Basis, Body style,
        Campaign, Carrier route, Cause, Claim, Code name, Commodity, Component, Condition, Course,
        Crop, Currency, Degree, Delivery terms, Design, Diagnosis, Disposition, Document title,
        Dosage form, Drug, Education, Element, Exposure, Feature, Finish, Fuel, Function, Goods,
        Hazard class, Headline, Industry, Ingredient, Instrument, Key words, Language, Level,
        Make, Mode, Model year, Name of product, Nationality, Notice, Operation, Parameter,
        Part name, Phase, Premium item, Procedure, Rating, Relationship, Request for, Result,
        Role, Sample description, Scope, Series, Service, Shift, Software, Solvent, Standard,
        Stage, Study title, Symptoms, System, Target audience, Test, Test article, Tool,
        Treatment, Unit, Usage, Variety, Vehicle, Warranty
        """
    ),
    "text": terms(
        """
        Remarks, Comments, Description, Notes, Explanation, Special instructions, Summary,
        Purpose, Reason, Justification, Conclusions, Recommendations, Objectives, Background,
        Results, Procedure, Observations, Findings, Action required, Message, Other comments,
        Instructions, Discussion, Scope of work, Details, Additional information,
        Reason for request, Statement, Work requested, Abstract, History, Other, Follow-up,
        Competitive activity, Current status, Next steps, Problem, Action taken, Suggestions,
        Conditions, Nature of work, Accomplishments, Action, Advantages, Agenda, Analysis,
        Approach, Areas of concern, Assumptions, Benefits, Business purpose, Cause of accident,
        Changes made, Competition, Concerns, Consumer response, Coverage, Damage, Deficiencies,
        Distribution, Effect, Evaluation, Events, Exceptions, Expected results, Facilities,
        General comments, Goals, Handling, How obtained, Impact, Improvements, Introduction,
        Issues, Job duties, Key findings, Limitations, Materials and methods, Methods, Need,
        Objective, Opinion, Outcome, Plan of action, Precautions, Progress, Promotion,
        Proposed action, Protocol, Rationale, Reactions, Requirements, Responsibilities, Review,
        Risks, Sales force, Significance, Source of funds, Special handling, Storage, Strategy,
        Strengths, Support required, Terms and conditions, Training, Weaknesses
        """
    ),
    "period": terms(
        """
        Period, Year, Term, Duration, Period covered, Fiscal year, Time period, Length of service,
        Season, Quarter, Month, Timing, Dates, Run dates, Schedule, Flight dates, Inclusive dates,
        Length of study
        """
    ),
    "yesno": terms(
        """
        Approved?, Urgent?, Renewal?, New?, Taxable, Confidential, Rush?, Married, Insured?,
        Completed?
        """
    ),
    "initials": terms(
        """
        Initials, By, Typist, Init., Secretary, Rec'd by, Checked
        """
    ),
}
"""Labels as they are printed."""

PATTERNS: Mapping[str, tuple[str, ...]] = {
    "person": terms(
        """
        {p} by, {n} {p} by, name of {n}, {n} manager, {n} contact, {role}
        """
    ),
    "company": terms(
        """
        {n} company, {n} supplier, name of {n} firm, {n} agency
        """
    ),
    "date": terms(
        """
        {n} date, date {p}, date of {n}, {n} due, {p} on, {n} {p}, date {n} {p}, {a} {n} date,
        {n} expires, {n} effective
        """
    ),
    "code": terms(
        """
        {n} no., {n} number, {n} code, {n} ID, {n} #, {n} ref., {a} {n} no., {n} {n} no.,
        {n} file, No. of {n}, {n} account
        """
    ),
    "amount": terms(
        """
        {n} cost, total {n}, {n} amount, {a} {n} ($), cost of {ns}, {n} fee, {n} charges,
        {n} budget, {n} price, {a} {n} cost, {n} allowance, less {n}, plus {n}
        """
    ),
    "count": terms(
        """
        no. of {ns}, number of {ns}, {n} quantity, total {ns}, {ns} {p}, qty. {p}, # of {ns},
        {a} {ns}, {n} volume, {n} size
        """
    ),
    "percent": terms(
        """
        % {n}, {n} %, {n} rate, percent {p}, {n} share, % {ns} {p}
        """
    ),
    "measure": terms(
        """
        {n} weight, {n} length, {n} temperature, average {n}, {a} {n}, {n} level, {n} content,
        {n} (mg), {n} (%), max. {n}, min. {n}, {n} pressure, {n} ratio
        """
    ),
    "phrase": terms(
        """
        {n}, {a} {n}, {n} type, type of {n}, {n} {n}, kind of {n}, {n} name, {n} class,
        {n} method, {n} status, {n} description, {n}/{n}, {n} of {n}, {n} source, {a} {n} {n},
        {n} & {n}, {n} (if any), {n} {p}, {ns}
        """
    ),
    "text": terms(
        """
        description of {n}, reason for {n}, {n} comments, {n} {ns}, purpose of {n}, {a} {ns},
        {n} instructions, other {ns}, {n} remarks, {ns} {p}, effect on {n}, {n} response to {n},
        explain {n}, {n} and {n}
        """
    ),
    "place": terms(
        """
        {n} location, {n} site, place of {n}, {n} office, {n} state
        """
    ),
    "period": terms(
        """
        {n} period, length of {n}, {n} year, {n} schedule, term of {n}
        """
    ),
    "yesno": terms(
        """
        {n} {p}?, is {n} {p}?, {a} {n}?, {n} required?, {p}?
        """
    ),
    "phone": terms(
        """
        {n} phone, {n} telephone, {n} fax
        """
    ),
    "address": terms(
        """
        {n} address, address of {n}
        """
    ),
    "role": terms(
        """
        {n} title, {n} position
        """
    ),
    "department": terms(
        """
        {n} department, {n} division
        """
    ),
}
"""Labels with gaps for a trade's own words."""

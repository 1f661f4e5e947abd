"""Adjectives, verbs, units and other words that join the nouns of a trade into phrases."""

from __future__ import annotations

from hushdoc_training.invented.wordlist import terms, words

ADJECTIVES = words(
    """
    absolute acceptable accessible accidental active actual additional adequate adjacent advanced
    adverse affected alternate alternative ambient analytical annual applicable approved
    approximate artificial associate authorized automatic auxiliary available average basic
    beneficial bilateral blank blue bold brief broad broken bulk central certified chief chronic
    clean clear closed coarse cold collective combined commercial common comparable compatible
    competitive complete complex comprehensive confidential consecutive conservative considerable
    consistent constant consulting continuous contractual controlled conventional cooperative
    corporate correct corrective critical crude cumulative current customary daily damaged
    deferred defective deliberate dense dependent designated detailed different digital direct
    dirty distinct domestic double dry dual due early economic effective efficient elderly
    electric electronic eligible emergency empty enclosed entire environmental equal equivalent
    essential estimated excess exclusive executive existing experimental express extended external
    extra extraordinary fair false familiar federal final financial fine finished first fixed
    flexible foreign formal former fragile free frequent fresh front full functional further
    future general generic genuine global good grand green gross half hard hazardous heavy high
    historical hollow horizontal hourly human identical immediate important improved inactive
    incidental incoming incomplete incorrect independent indirect individual industrial inferior
    informal initial inner institutional insufficient intended interim intermediate internal
    international invalid joint junior key known large last late latent lateral leading left legal
    light limited liquid live local long loose low lower main major male mandatory manual marginal
    marine maximum mean mechanical medical medium mental metallic metric middle mild minimum minor
    missing mixed mobile moderate modern modified monthly moving multiple mutual narrow national
    native natural necessary negative net neutral new nominal nonresident normal northern notable
    nuclear obsolete occasional odd official offshore old open operational optical optimum
    optional oral ordinary organic original outgoing outside outstanding overall overdue overseas
    own parallel partial particular past pending periodic permanent personal physical plain
    planned pleasant portable positive possible postal potential practical preferred preliminary
    premium present prevailing previous primary principal prior private probable professional
    proper proposed prospective protective provisional public pure qualified quarterly quick quiet
    random rapid rare raw ready real reasonable recent recommended recurring red reduced refined
    regional registered regular related relative relevant reliable remaining remote repeated
    representative required reserved residential responsible restricted retail retired reverse
    right rigid rough round routine rural safe satisfactory scheduled scientific second secondary
    secure selected senior sensitive separate serious severe shallow sharp short significant
    similar simple single slight slow small smooth social soft sole solid southern special
    specific spare stable stale standard statistical steady steep stiff straight strategic strict
    strong structural subsequent substantial successful sufficient suitable summary superior
    supplementary surplus suspicious synthetic taxable technical temporary tentative terminal
    thermal thick thin third tight top total toxic traditional transparent true typical ultimate
    unable unauthorized uncertain uniform unique universal unknown unpaid unsigned unusual upper
    urban urgent usual vacant vague valid valuable variable vertical vital visible visual
    voluntary warm weekly western wet white whole wholesale wide wild willing wooden written wrong
    yearly yellow
    """
)

PARTICIPLES = words(
    """
    accepted acknowledged acquired adjusted admitted adopted advised agreed allocated amended
    analyzed announced answered applied appointed approved arranged assembled assessed assigned
    attached audited authorized awarded based billed booked bought budgeted built calculated
    canceled carried cashed certified changed charged checked claimed cleared closed collected
    combined committed compared compiled completed composed computed condensed conducted confirmed
    considered consumed contacted contained contracted converted copied corrected counted covered
    created credited cut damaged declared deducted deferred delayed deleted delivered deposited
    designed destroyed detected determined developed diluted directed discarded discontinued
    discussed displayed disposed distributed documented drafted drawn driven dropped earned edited
    employed enclosed endorsed entered established estimated evaluated examined exceeded exchanged
    executed expected expired explained exposed extended extracted fabricated failed filed filled
    filtered finished fixed forwarded found funded furnished graded granted handled heated held
    identified implemented imported improved included incurred indicated initiated inserted
    inspected installed insured interviewed introduced inventoried invested investigated invited
    issued joined judged kept labeled leased licensed listed loaded located logged lost made
    mailed maintained managed manufactured marked measured met modified monitored mounted moved
    named needed negotiated noted notified numbered observed obtained occupied offered opened
    operated ordered organized owed packed paid painted performed placed planned planted posted
    prepared prescribed presented printed processed procured produced projected promised proposed
    protected provided published purchased qualified quoted raised ranked rated read rebuilt
    received recommended recorded recovered reduced referred refunded refused registered rejected
    released removed renewed rented repaired replaced reported represented requested required
    reserved resolved restricted retained returned revised routed sampled scanned scheduled
    screened sealed searched selected sent separated served settled shared shipped shown signed
    sold solved sorted specified spent sponsored staffed stamped started stated stopped stored
    submitted supervised supplied supported surveyed suspended tabulated taken taught terminated
    tested traced trained transferred transmitted transported treated typed updated used utilized
    vacated validated valued verified visited voided waived weighed withdrawn withheld witnessed
    worked written
    """
)

VERBS = words(
    """
    accept acknowledge adjust advise allocate amend analyze answer apply approve arrange assemble
    assess assign attach attend authorize calculate cancel certify change charge check claim clean
    clear close collect combine compare complete compute conduct confirm consider contact continue
    control convert copy correct create cut debit deduct deliver describe design detach determine
    develop direct discuss display distribute draw employ enclose enter establish estimate
    evaluate examine exchange execute expand explain extend file fill finish forward furnish
    handle heat hold identify implement improve include increase indicate inform initiate insert
    inspect install insure interview introduce investigate invite issue itemize justify keep label
    list load locate mail maintain make manage mark measure meet modify monitor move name
    negotiate note notify obtain offer open operate order organize pack pay perform plan post
    prepare present print process produce promote propose protect provide purchase rate receive
    recommend record reduce refer register release remove renew repair replace report request
    reserve resolve return review revise route run sample schedule seal select send separate ship
    sign specify start state store submit supervise supply support survey suspend tabulate test
    trace train transfer transmit treat type update use validate verify visit weigh withdraw
    witness write
    """
)

ROLES = terms(
    """
    Account Executive, Accountant, Accounting Manager, Administrator, Adviser, Agent, Analyst,
    Applicant, Appraiser, Architect, Area Manager, Assistant Director, Assistant Manager,
    Assistant to the President, Associate Director, Attorney, Auditor, Bookkeeper, Branch Manager,
    Brand Manager, Broker, Buyer, Carrier, Cashier, Chairman, Chemist, Chief Accountant,
    Chief Engineer, Claims Examiner, Clerk, Client, Commissioner, Comptroller, Consignee,
    Consultant, Contractor, Controller, Coordinator, Counsel, Customer, Data Clerk, Dean,
    Department Head, Deputy Director, Designer, Director, Director of Research, Dispatcher,
    District Manager, Division Manager, Doctor, Driver, Editor, Employee, Engineer, Examiner,
    Executive Vice President, Field Representative, Foreman, General Counsel, General Manager,
    Group Leader, Guardian, Head Nurse, Inspector, Instructor, Insured, Investigator,
    Laboratory Manager, Landlord, Librarian, Machinist, Manager, Marketing Director, Media Buyer,
    Medical Officer, Notary Public, Nurse, Office Manager, Operations Manager, Operator, Owner,
    Partner, Patient, Pharmacist, Physician, Plant Manager, President, Principal,
    Principal Investigator, Printer, Product Manager, Production Manager, Professor, Programmer,
    Project Leader, Project Manager, Purchasing Agent, Quality Manager, Receiver, Receptionist,
    Regional Manager, Registrar, Reporter, Representative, Research Associate, Reviewer,
    Safety Officer, Sales Manager, Sales Representative, Scientist, Secretary, Section Head,
    Security Officer, Senior Chemist, Senior Scientist, Senior Vice President, Shipper, Sponsor,
    Staff Assistant, Student, Study Director, Superintendent, Supervisor, Supplier, Surveyor,
    Teacher, Technician, Teller, Tenant, Tester, Toxicologist, Traffic Manager, Treasurer,
    Trustee, Underwriter, Vendor, Vice President, Witness
    """
)

DEPARTMENTS = terms(
    """
    Accounting, Accounts Payable, Administration, Admissions, Advertising, Analytical Services,
    Audit, Billing, Biology, Chemistry, Claims, Clinical Affairs, Communications, Compliance,
    Computer Services, Consumer Affairs, Contracts, Corporate Affairs, Credit, Customer Service,
    Data Processing, Design, Development, Distribution, Editorial, Engineering,
    Environmental Health, Estimating, Export, Facilities, Field Operations, Field Sales, Finance,
    Fleet, General Services, Government Relations, Grants Office, Graphics, Human Resources,
    Import, Industrial Relations, Information Systems, Insurance, Internal Audit,
    Inventory Control, Labor Relations, Laboratory, Legal, Library, Licensing, Logistics,
    Mail Room, Maintenance, Manufacturing, Market Research, Marketing, Materials, Medical,
    Merchandising, Microbiology, Network Operations, Nursing, Operations, Packaging, Payroll,
    Pension Office, Personnel, Pharmacy, Planning, Plant Services, Pathology, Procurement,
    Product Development, Production, Public Affairs, Public Relations, Purchasing,
    Quality Assurance, Quality Control, Real Estate, Receiving, Records, Registration,
    Regulatory Affairs, Research, Retail Sales, Risk Management, Safety, Sales, Sales Support,
    Scientific Affairs, Security, Shipping, Statistics, Stores, Student Affairs, Systems, Tax,
    Technical Services, Telecommunications, Toxicology, Trade Relations, Traffic, Training,
    Transportation, Travel Desk, Treasury, Trial Support, Underwriting, Warehouse
    """
)

UNITS = terms(
    """
    %, mg, g, kg, lb, lbs., oz, ml, l, gal, cc, mm, cm, m, in., ft., sq. ft., yd, ppm, ppb, mg/kg,
    mg/l, g/cm3, deg. C, deg. F, psi, bar, kPa, rpm, min, min., hrs, sec, days, weeks, V, A, W,
    kW, kWh, Hz, dB, cps, pH, pcs, ea, doz, box, pkg, ctn, case, M, units, mg/cig, ug/g, N, J/g,
    mol, mmol/l, IU, mmHg, kcal, cu ft, bu, ac, ha, tons, bbl, ream, roll, sheet, pages, lines,
    words, pts, bps, KB, MB
    """
)

COLOURS = terms(
    """
    black, white, red, blue, green, yellow, gold, silver, gray, brown, orange, pink, purple,
    natural, clear, ivory, navy, maroon, tan, beige, charcoal, teal, amber, cream
    """
)

MATERIALS = terms(
    """
    steel, aluminum, copper, brass, plastic, cardboard, paper, glass, rubber, cotton, wool,
    leather, oak, pine, nylon, vinyl, foam, ceramic, granite, polyester, chrome, foil, canvas,
    silk, PVC, acrylic, polypropylene, cork
    """
)

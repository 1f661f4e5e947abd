"""The vocabulary of sixteen trades: the nouns their forms are made of."""

from __future__ import annotations

from hushdoc_training.invented.wordlist import words

DOMAINS: dict[str, tuple[str, ...]] = {
    name: words(nouns)
    for name, nouns in {
        "chemistry": """
            acetate acetone acid additive aerosol alcohol aldehyde alkali alloy amine ammonia
            aliquot ash assay batch beaker benzene binder blend buffer bulk burette calcium
            calibration carbonate catalyst cellulose chloride chromatograph citrate coating column
            compound concentrate condensate coolant crystal curing density detector diluent
            distillate dosage dye effluent element emission emulsion enzyme ester ethanol
            evaporation extract extraction feedstock fiber film filter filtrate flask flavor flow
            fluid foam formula formulation fraction fragrance fume gas gel glycerin glycol gradient
            granule hydrate hydroxide impurity inhibitor ion isomer lacquer latex lipid liquid
            magnesium menthol mercury methanol mixture moisture molecule nitrate nitrogen nozzle
            odor oil organics oven oxide oxygen particle peak permeability peroxide pH phenol
            phosphate pigment plasma plasticizer polymer porosity potassium powder precipitate
            preservative pressure propylene protein purity pyridine reaction reactor reagent
            reference residue resin retention rinse salt sample saturation sediment sensor silica
            slurry sodium solids solubility solute solvent spectrum stability standard starch steam
            storage sucrose sugar sulfate surfactant suspension temperature tin titration toluene
            toxicity tube vacuum vapor vessel viscosity volatile volume wax weight
            """,
        "sales": """
            account advertisement agency allocation allowance appeal audience awareness billboard
            bonus booth brand broker budget buyer buydown campaign carton case category chain
            channel circulation claim client clerk closing commission competitor consumer contact
            contest convention cooperator counter coupon coverage creative customer deal dealer
            delivery demand demographics discount display distribution distributor division
            effectiveness event exhibit exposure feedback field flyer focus forecast franchise gift
            gross impression incentive introduction inventory jobber kiosk launch lead leaflet list
            listing location mailing manager margin market marketing media merchandise merchandising
            message movement newspaper objective offer outdoor outlet package packing panel payment
            penetration placement poster potential premium presentation price pricing print product
            profile program promotion prospect purchase quarter quota quote rack rate rating
            reaction rebate receptivity recall region register repeat representative response retail
            retailer return route sale salesman sampling season segment shelf shipment shopper
            showroom signage slogan space spokesman sponsor stock store strategy supermarket survey
            talent target territory trade traffic trend trial turnover unit value vendor visit
            volume warehouse wholesaler
            """,
        "personnel": """
            ability absence age allowance annuity applicant appointment assignment attendance
            authority award badge beneficiary benefit birth bonus branch candidate career
            certificate child citizenship clerk college compensation competence contract course
            coverage deduction degree department dependent deposit disability dismissal education
            election eligibility emergency employee employer employment enrollment evaluation
            experience family foreman gender goal grade graduation grievance handicap hire hour
            household hospitalization illness income increase insurance interview job language leave
            level license maiden major marital membership military name nationality notice objective
            occupation orientation overtime parent payroll pension performance permit personnel
            physician plan position probation profession progress promotion qualification race
            rating recruiter reference referral rehire relationship relative relocation residence
            resignation resume retirement review salary schedule school seniority separation service
            session sex shift signature skill spouse staff status supervisor tenure termination
            title trainee trainer training transfer trustee union vacancy vacation veteran visa wage
            warning welfare withholding witness worker workplace
            """,
        "shipping": """
            airbill airfreight arrival axle bale barge barrel berth bill booking box broker bundle
            cargo carrier carton charge chassis clearance collect commodity compartment consignee
            consignor container contents contract courier crate crew cube cubic customs damage deck
            declaration delivery demurrage depot destination detention diesel dimension dispatch
            dispatcher dock driver drum duty escort export exporter fee ferry fleet flight forklift
            forwarder freight fuel gate gross handling harbor hatch haul hazard hold import importer
            incoterm insurance invoice lading lane leg letter lift liner load loading locker logbook
            luggage manifest marks mileage mode mooring net notify order origin outturn package
            packing pallet parcel passage permit pickup pier piece pilot port postage prepaid
            quantity quay rail receipt receiver refrigerator release remittance return rigging roll
            route sack schedule seal seaport shed shipper ship skid slip stamp stop storage stowage
            surcharge tank tare tariff terminal ton tonnage towage tracking tractor trailer transfer
            transit transport transshipment trip truck tug unloading valuation van vehicle vessel
            voyage wagon warehouse waybill weighbridge weight wharf yard zone
            """,
        "finance": """
            account accrual adjustment advance agreement allocation amortization annuity appraisal
            appropriation arrears asset audit auditor authorization balance bank bankruptcy basis
            bearer bid bill bond book borrower broker budget bullion capital cash cashier ceiling
            charge check checking claim clearing closing coin collateral collection commission
            commitment cost coupon credit creditor currency custodian customer debenture debit debt
            debtor deduction default deficit deposit depreciation disbursement discount dividend
            draft due earnings endorsement entry equity escrow estate estimate exchange exemption
            expenditure expense fee finance fiscal forecast foreclosure fund funding gain guarantee
            holding income indebtedness index installment interest inventory investment investor
            invoice issue item journal ledger lender liability lien limit liquidity loan loss margin
            maturity merger mortgage net note notice obligation offset option overdraft overhead
            payable payee payer payment payroll penalty period petty portfolio posting premium
            prepayment principal proceeds profit provision purchase quotation rate ratio rebate
            receipt receivable reconciliation redemption refund register reimbursement remittance
            renewal rent repayment reserve residual retainer return revenue royalty salvage savings
            schedule securities settlement share shortage signatory statement stock subsidiary sum
            surplus surtax tax teller tender term title total transaction transfer travel treasury
            trust turnover validation valuation variance voucher warrant yield
            """,
        "medicine": """
            abdomen admission adverse age allergy ambulance analgesic anamnesis anesthesia
            antibiotic antibody appetite artery aspirin asthma bandage biopsy bladder bleeding blood
            bone brain breast breathing capsule cardiac care case catheter cavity cell chart chest
            cholesterol chronic clinic coagulation cohort colon complaint complication condition
            consent consultation consultant contraindication control convalescence cough culture
            dental diabetes diagnosis dialysis diet digestion discharge disease disorder dizziness
            donor dosage dose drug duration dysfunction edema emergency endoscopy enzyme episode
            examination exercise exposure eye family fever follow-up fracture gland glucose habit
            head headache hearing heart height hemoglobin history hormone hospital hypertension
            illness immunity implant incident infection infusion inhalation injection injury insulin
            intake intensive intern intestine investigator irritation joint kidney laboratory lesion
            limb liver lung lymph medication membrane metabolism monitor mortality mucosa muscle
            nausea neck nerve nurse nutrition observation operation organ outcome outpatient oxygen
            pain palpitation patient pharmacy physician placebo plasma platelet pregnancy
            prescription pressure procedure prognosis protocol pulse radiology rash reaction
            receptor recovery reflex rehabilitation relapse remedy residue respiration response
            result risk saliva screening sedation serum severity side skin sleep smear specimen
            spine spleen stomach stroke subject surgeon surgery swelling symptom syndrome syringe
            tablet temperature therapy throat thyroid tissue tolerance tonsil toxicity transfusion
            trauma treatment tumor ulcer urine vaccine vein vision vitamin vomiting ward weight
            wound x-ray
            """,
        "research": """
            abstract accuracy acquisition aim amendment analysis animal apparatus approach approval
            area article aspect assay assessment assistant assumption author background baseline
            bibliography bioassay chamber characterization choice classification code coefficient
            collaboration collection comment committee comparison component computation concept
            conclusion condition conference contract contractor control coordinator correlation
            criterion data database deadline deliverable demonstration design determination
            development deviation director discipline discovery dissertation draft duration effect
            effort equipment error estimate evaluation evidence experiment exposure facility factor
            feasibility figure finding forecast framework function funding goal grant graph group
            guideline hypothesis identification impact implementation improvement index indicator
            inhalation innovation inquiry institute instrument interim investigator isolation
            journal knowledge laboratory lecture library limit literature manuscript material
            measurement mechanism method methodology microscope milestone model monograph notebook
            objective observation outcome outline overview panel paper parameter participant patent
            pathology patient personnel phase pilot plan poster prediction preparation principle
            priority probability problem procedure process professor program progress project
            proposal protocol publication purpose quality quantity question range ratio rationale
            recommendation reference regression relevance renewal report requirement research result
            reviewer sample sampling schedule science scientist scope section sensitivity series
            session significance simulation site species specification specimen sponsor staff
            standard statistics strain strategy structure study subject summary supervisor supply
            support survey symposium synthesis system task technique technology tendency test theory
            thesis topic treatment trend trial university validation validity variable variance
            variation verification version
            """,
        "law": """
            acceptance action affidavit agreement allegation amendment answer appeal appearance
            appendix applicant arbitration argument article assignment attachment attorney authority
            award bail bailiff bar bench breach brief bylaw calendar case cause certification charge
            charter circuit citation claim claimant class clause clerk client code commission
            complaint compliance concession condition confidentiality consent consideration contract
            conviction copyright counsel court covenant creditor damages debtor deed default
            defendant defense deponent deposition discovery dismissal disposition dispute district
            docket document domicile easement enactment enforcement estate evidence examination
            exception execution executor exhibit expert file filing fine forfeiture fraud grantor
            guarantor guardian hearing heir immunity indemnity indictment infringement injunction
            inquiry inspection instrument insurance interest interrogatory issue judge judgment
            jurisdiction jury justice landlord law lawsuit lawyer lease legislation lessee lessor
            letter liability license lien litigation mandate matter mediation memorandum merits
            minor misconduct mortgage motion negligence negotiation notary notice oath objection
            obligation offense omission opinion order ordinance parcel party patent payment penalty
            petition petitioner plaintiff plea pleading policy possession power precedent privilege
            probate proceeding production proof property prosecution provision record recital
            recourse redaction regulation release relief remedy representation request rescission
            resolution respondent restitution restriction retainer review right rule sanction seal
            search section sentence service settlement sheriff signature solicitor statute
            stipulation subpoena suit summons surety tenant term testament testimony title tort
            trademark transcript trial tribunal trust trustee verdict verification violation waiver
            warrant warranty will witness writ
            """,
        "computing": """
            access adapter address administrator alarm algorithm application archive array backup
            bandwidth baud batch binary bit block board boot browser buffer bug byte cabinet cable
            cache capacity card cartridge channel character chip circuit client clock cluster code
            column command compiler component computer configuration connection connector console
            controller conversion copy core cursor cylinder data database deletion desktop device
            diagram directory disk diskette display domain downtime drive driver duplex editor
            emulator encryption entry error execution extension failure fault field file firmware
            flag floppy font format frame frequency gateway graphics hardware header helpdesk host
            identifier index input installation interface interrupt job kernel keyboard keypunch
            label laptop latency layout library license line link listing location lock log login
            loop machine macro mainframe maintenance memory menu message migration mode modem module
            monitor mouse network node notebook object operand operator outage output packet page
            parameter parity partition password patch path peripheral pixel platform plotter port
            power printer printout priority process processor program programmer prompt protocol
            query queue record recovery register release remote repeater replacement report request
            reset resource restore retention router routine runtime scanner schedule screen script
            sector security segment sensor sequence server session setting signal site slot software
            sort source spool spreadsheet statement station storage string subroutine switch symbol
            syntax system table tape telex template terminal test text thread ticket timeout token
            track transaction transfer transmission tray trouble upgrade upload usage user utility
            validation variable vendor version virus voltage volume window word workstation
            """,
        "education": """
            absence academy accreditation activity admission adviser alumni aptitude arithmetic art
            assembly assessment assignment athletics attendance auditorium award bachelor band
            behavior biology book bursar bus calendar campus career catalog center certificate chair
            chapter chemistry child choir class classroom coach college conduct conference counselor
            course credit curriculum deadline dean degree department diploma discipline district
            dormitory drama education elective enrollment entrance essay evaluation examination
            exercise extension faculty fee fellowship field geography geometry grade graduate
            graduation grammar grant group guardian gymnasium handbook headmaster history homework
            honors hygiene immunization institution instruction instructor kindergarten laboratory
            language learning lecture lesson level library literacy literature lunch major mark
            mathematics meal member mentor method minor module museum music objective orientation
            parent participation performance philosophy physics playground practice prerequisite
            principal prize professor program progress psychology pupil quiz reading recess recital
            registrar registration report requirement residence retention roster scholarship school
            science section semester seminar session shelf skill society spelling sponsor sport
            staff standing student studio study subject supervision syllabus teacher teaching term
            test textbook theater thesis topic track transcript transfer transportation trip truancy
            tuition tutor undergraduate uniform unit university volunteer warden workbook workshop
            yearbook
            """,
        "construction": """
            acre addition aggregate alteration anchor angle appliance arch architect area asphalt
            attic balcony barrier basement bathroom batten bay beam bearing bid bolt bond bracket
            breaker brick bridge builder building cabinet cable caisson carpenter carpet casing
            caulking ceiling cement chimney cladding clause clearance closet column completion
            concrete conduit construction contractor core corridor courtyard crane crew culvert curb
            cutting deck demolition depth design door downspout drain drainage drawing drill
            driveway duct dwelling easement electrician elevation elevator embankment engineer
            entrance estimate excavation exit extension exterior facade fan fence fiberboard fill
            finish fireplace fitting fixture flashing flooring footing formwork foundation frame
            framing furnace garage gasket gate girder glass glazing grade gravel grid grout gutter
            gypsum hallway hammer handrail hardware heater height hinge hoist home house hydrant
            insulation interior joint joist kitchen ladder landing landscape lath lathe layout lease
            ledge lighting lime lintel lobby lot lumber marble masonry mason mortar nail occupancy
            opening outlet owner paint panel parapet parcel parking partition paving penalty permit
            pier pile pipe plan plank plaster plate plot plumber plumbing plywood pole pond porch
            property pump rafter railing ramp rebar renovation repair retainage riser road rod roof
            room sand scaffold schedule sealant seam setback sewer sheathing shingle shutter
            sidewalk siding sill site sketch slab slope socket soil specification spigot stair steel
            stone storey structure stucco stud subcontractor subfloor superintendent survey tank
            tenant terrace thickness threshold tile timber trench truss tunnel utility valve vault
            veneer ventilation vent wall washer waterproofing weld welding window wire wiring
            workmanship zoning
            """,
        "agriculture": """
            acreage alfalfa apple apiary auger bale barley barn bean beef beet berry blight bran
            breed breeder broiler bull bushel cabbage calf carcass cattle cereal chicken clover
            coffee colony combine compost cooperative corn cotton cow cream creamery crop cultivar
            cultivation curing dairy deer disease drainage drought dryer ear egg ewe fallow farm
            farmer fat feed feedlot fence fertilizer fiber field fishery flax flock flour fodder
            forage forest fowl frost fruit fumigation fungicide furrow garden germination goat grade
            grain grape grass graze greenhouse grove grower harvest hatchery hay hedge heifer hen
            herb herbicide herd hive hog honey hop horse humus hybrid infestation insecticide
            inspection irrigation kernel lamb larva leaf legume lettuce lime litter livestock loam
            maize manure meadow meal melon milk mill mite moisture mulch mushroom nitrogen nursery
            nut oat onion orchard organism paddock parasite pasture pea peach peanut pest pesticide
            pigment piglet plant planter planting plot plow pollen pond potato poultry produce
            pruning pulp quarantine rainfall ranch rapeseed residue rice ripeness root rotation rye
            sapling sawmill seed seedling sheep shelter shrub silage silo slaughter soil sorghum sow
            soybean species spray sprayer stalk stem stock straw strawberry subsidy sunflower swine
            tenant thresher tillage tobacco tomato tractor tree trough turkey udder vaccine
            vegetable vineyard watering weed weevil wheat wool yeast yield
            """,
        "insurance": """
            accident actuary adjuster agent allowance annuity appraisal arson arbitration assessment
            assured attachment automobile beneficiary benefit binder bodily broker building burglary
            cancellation cargo carrier casualty catastrophe cause certificate claim claimant class
            coinsurance collision commission company compensation condition contents contract
            contribution conversion cover coverage damage date death debris declaration deductible
            defect dependent depreciation disability disclaimer discovery dwelling earthquake
            effective endorsement estimate examiner exclusion expiration explosion exposure fault
            fire flood form fraud garage glass group hail hazard health holder homeowner hospital
            household hull identity illness incident indemnity inflation injury inspection insurance
            insured insurer investigation item jewelry lapse liability lien life limit line location
            lodging loss maintenance malpractice marine mortality mortgagee motor negligence notice
            occupancy occurrence option owner passenger payment pedestrian pension peril period
            physician plan police policy policyholder premises premium property proof proposal
            provision quote rate rating recovery refund reinsurance renewal rental repair
            replacement report reserve residence retention rider risk salvage schedule settlement
            signature sprinkler statement storm subrogation suit survivor term theft title tornado
            towing treaty underwriter underwriting valuation value vandalism vehicle waiver warranty
            water wind witness
            """,
        "manufacturing": """
            adhesive adjustment alignment aluminum anvil arbor assembly assembler axis barrel batch
            bearing belt bench blade blank blister bobbin bolt bore bottle bracket brake brass
            bronze brush bushing cable calibration caliper cam cap carbide carton cartridge casting
            chain chamber changeover chuck clamp clearance clutch coil component compressor conveyor
            cooling copper core coupling cover crank crew cutter cycle cylinder defect depth design
            device diameter die dimension downtime drawing drill drum edge efficiency ejector
            equipment fabric failure fastener feed filler finish fixture flange flaw foil foreman
            forge foundry frame furnace gauge gasket gear grease grinder groove guard hardness hinge
            hopper hose housing idle inspection inspector inventory jig kiln label lathe layer
            length lever line liner lining lot lubricant machine machinist maintenance maker mandrel
            material metal mill mixer mold monitor motor needle nickel nut operation operator output
            overhaul packaging paddle paint pallet panel part pattern piece pin pipe piston pitch
            plant plastic plate plug polish press printing production pulley pump punch quality
            quantity rack rejection repair rework ribbon rig ring rivet rod roller rolls roughness
            rubber saw scrap screen screw seal section serial setup shaft sheet shift shop shuttle
            sleeve slot spare specification speed spindle spool spring sprocket stamping station
            steel stock strap strip supervisor surface switch tape tester thickness thread
            throughput timing tin tip tolerance tool tooling torque tray trim tube turbine valve
            velocity vibration vise washer waste wear welder wheel width winding wire workpiece
            wrapper wrench yarn zinc
            """,
        "government": """
            act administration agency agenda agreement allocation amendment appeal applicant
            application appointment approval assembly assessment assistance assistant authority
            ballot benefit board border bureau bylaw cabinet campaign candidate census certificate
            certification chairman citizen citizenship city claim clearance clerk commission
            commissioner committee community compliance congress consent constituency consul council
            county customs decision declaration decree deficit delegate delegation department deputy
            development directive director district document domicile dwelling election embassy
            emergency endorsement enforcement entitlement environment equality examination executive
            exemption expenditure expiration export facility federation fee fine form fund governor
            grant health hearing highway household housing immigration import incident inspection
            inspector issuance issue jurisdiction labor land legislation legislature levy license
            local mayor measure meeting member minister ministry minutes motion municipality
            nationality notice office officer official ordinance panel parish parliament passport
            penalty permit petition placard police policy population post precinct prefecture
            procedure procurement program property province provision public quorum recipient record
            referendum refugee region register registrar registration regulation relief report
            representative request requirement resident resolution restriction revenue roll safety
            sanction schedule secretary sector senate senator service session sheriff status statute
            subsidy tariff tax taxpayer tenure territory title town township traffic treasurer
            treasury treaty tribunal utility validity vehicle visa vote voter waiver welfare witness
            zone
            """,
        "media": """
            actor ad advertiser agency album announcer archive art article artist artwork audience
            author band banner binding biography book booklet broadcast brochure bulletin cable
            camera campaign caption cartoon cast cassette catalog channel chapter cinema circulation
            clip coating color column columnist comedy commercial composer concert copy copyright
            correspondent cover credit critic cue daily deadline design designer dialogue director
            disc distributor documentary drama dubbing edition editor editorial engraving episode
            essay exhibit feature festival film font footage format frame frequency gallery genre
            graphic guest handbill headline host illustration image impression insert insertion
            interview issue journal journalist jury label layout leaflet letterpress lighting lineup
            listener literature logo lyric magazine mailing manuscript margin master material
            microphone mockup model monitor montage monthly mural music narrative narrator negative
            network news newsletter newspaper notice novel opening orchestra outline page paint
            pamphlet panel paper paperback paragraph performance period permission photo photograph
            photographer picture pixel plate play poem positioning poster premiere preview print
            printer prize producer production program proof prop publication publicity publisher
            quotation radio readership recording reel rehearsal release reporter reprint
            reproduction review rights royalty scene schedule screen script season sequel serial
            series session set shooting show singer size sketch slide slot song soundtrack source
            space speaker spokesperson spot spread stage station story studio subscriber
            subscription subtitle supplement table talent tape theater theme title tone track
            trailer transcript translation transparency transmission typeface typesetting version
            video viewer voice volume weekly writer
            """,
    }.items()
}
"""Nouns of every trade."""

TRADES = tuple(DOMAINS)

ALL_NOUNS = tuple(sorted({noun for nouns in DOMAINS.values() for noun in nouns}))

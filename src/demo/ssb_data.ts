// The data of the Star Schema Benchmark: five tables. Each row is computed from its number alone, so that batches can be generated in any
// order and are reproducible. Domains and distributions are those of the paper (O'Neil, O'Neil, Chen) and, where it does not specify them,
// of the public generator.
import { dayMs } from '../model/durations.ts';

export type SsbValue = string | number | boolean;

export interface SsbTable {
  readonly name: string;
  readonly columns: readonly string[];
  /** Number of rows at a scale factor; scale 1 is 6,000,000 lineorder rows, and fractions are allowed. */
  rowCount(scale: number): number;
  /** Rows `from` (0-based) up to `from + count`, or fewer at the end of the table; values are in the order of `columns`. */
  batch(scale: number, from: number, count: number): SsbValue[][];
}

// The most selective query, Q3.4, expects 0.5 order lines at scale 0.1 and 0.05 at 0.01: this is the first seed with which all 13 queries
// find rows at both scales.
const SEED = 55;

const STREAM = { customer: 1, supplier: 2, part: 3, orderBlock: 4, order: 5, line: 6 } as const;
const TWO_POW_32 = 4_294_967_296;

/** A bijection of 32-bit integers in which each bit of the input changes about half of the output's. */
function mix(value: number): number {
  let x = value;
  x = Math.imul(x ^ (x >>> 16), 0x21f0aaad);
  x = Math.imul(x ^ (x >>> 15), 0xd35a2d97);
  return x ^ (x >>> 15);
}

function rowKey(stream: number, index: number): number {
  const high = Math.floor(index / TWO_POW_32);
  return mix(mix(index | 0) + mix(SEED + Math.imul(stream, 0x632be5ab) + Math.imul(high, 0x85157af5)));
}

/** A uniform number from 0 to below-1. `field` distinguishes the draws of one row. */
function draw(key: number, field: number, below: number): number {
  return Math.floor(((mix(key + Math.imul(field, 0x9e3779b9)) >>> 0) / TWO_POW_32) * below);
}

const words = (text: string): string[] => text.trim().split(/\s+/);
const product = (...lists: string[][]): string[] =>
  lists.reduce((left, right) => left.flatMap((a) => right.map((b) => `${a} ${b}`)));

const NATIONS_BY_REGION: Readonly<Record<string, string>> = {
  AFRICA: 'ALGERIA,ETHIOPIA,KENYA,MOROCCO,MOZAMBIQUE',
  AMERICA: 'ARGENTINA,BRAZIL,CANADA,PERU,UNITED STATES',
  ASIA: 'CHINA,INDIA,INDONESIA,JAPAN,VIETNAM',
  EUROPE: 'FRANCE,GERMANY,ROMANIA,RUSSIA,UNITED KINGDOM',
  'MIDDLE EAST': 'EGYPT,IRAN,IRAQ,JORDAN,SAUDI ARABIA',
};
const NATIONS = Object.entries(NATIONS_BY_REGION)
  .flatMap(([region, names]) => names.split(',').map((name) => ({ name, region })))
  .sort((a, b) => (a.name < b.name ? -1 : 1));
const CITIES_PER_NATION = 10;
const CITY_PREFIX_CHARS = 9;

const SEGMENTS = words('AUTOMOBILE BUILDING FURNITURE HOUSEHOLD MACHINERY');
const PRIORITIES = ['1-URGENT', '2-HIGH', '3-MEDIUM', '4-NOT SPECIFIED', '5-LOW'];
const SHIP_MODES = ['REG AIR', 'AIR', 'RAIL', 'TRUCK', 'MAIL', 'FOB', 'SHIP'];
const CONTAINERS = product(words('SM LG MED JUMBO WRAP'), words('CASE BOX BAG JAR PKG PACK CAN DRUM'));
const PART_TYPES = product(
  words('STANDARD SMALL MEDIUM LARGE ECONOMY PROMO'),
  words('ANODIZED BURNISHED PLATED POLISHED BRUSHED'),
  words('TIN NICKEL BRASS STEEL COPPER'),
);
const COLORS = words(`
  almond antique aquamarine azure beige bisque black blanched blue blush brown burlywood burnished chartreuse chiffon
  chocolate coral cornflower cornsilk cream cyan dark deep dim dodger drab firebrick floral forest frosted gainsboro
  ghost goldenrod green grey honeydew hot indian ivory khaki lace lavender lawn lemon light lime linen magenta maroon
  medium metallic midnight mint misty moccasin navajo navy olive orange orchid pale papaya peach peru pink plum powder
  puff purple red rose rosy royal saddle salmon sandy seashell sienna sky slate smoke snow spring steel tan thistle
  tomato turquoise violet wheat white yellow`);

const ADDRESS_ALPHABET = '0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ, ';
const ADDRESS_CHARS_MIN = 6;
const ADDRESS_CHARS_MAX = 24;
const ADDRESS_FIRST_FIELD = 100;

function address(key: number): string {
  const length = ADDRESS_CHARS_MIN + draw(key, ADDRESS_FIRST_FIELD, ADDRESS_CHARS_MAX - ADDRESS_CHARS_MIN + 1);
  let text = '';
  for (let i = 1; i <= length; i++) text += ADDRESS_ALPHABET[draw(key, ADDRESS_FIRST_FIELD + i, 64)];
  return text;
}

/** What a customer and a supplier share: name, address, city, nation, region, phone. */
function party(title: string, key: number, number: number): SsbValue[] {
  const nationIndex = draw(key, 1, NATIONS.length);
  const nation = NATIONS[nationIndex]!;
  const city = nation.name.slice(0, CITY_PREFIX_CHARS).padEnd(CITY_PREFIX_CHARS) + draw(key, 2, CITIES_PER_NATION);
  const phone = [10 + nationIndex, 100 + draw(key, 3, 900), 100 + draw(key, 4, 900), 1000 + draw(key, 5, 9000)];
  return [
    `${title}#${String(number).padStart(9, '0')}`,
    address(key),
    city,
    nation.name,
    nation.region,
    phone.join('-'),
  ];
}

function customerRow(index: number): SsbValue[] {
  const key = rowKey(STREAM.customer, index);
  return [index + 1, ...party('Customer', key, index + 1), SEGMENTS[draw(key, 6, SEGMENTS.length)]!];
}

function supplierRow(index: number): SsbValue[] {
  return [index + 1, ...party('Supplier', rowKey(STREAM.supplier, index), index + 1)];
}

function partRow(index: number): SsbValue[] {
  const key = rowKey(STREAM.part, index);
  const manufacturer = `MFGR#${1 + draw(key, 1, 5)}`;
  const category = `${manufacturer}${1 + draw(key, 2, 5)}`;
  const brand = `${category}${1 + draw(key, 3, 40)}`;
  const first = draw(key, 5, COLORS.length);
  const second = (first + 1 + draw(key, 6, COLORS.length - 1)) % COLORS.length;
  return [
    index + 1,
    `${COLORS[first]} ${COLORS[second]}`,
    manufacturer,
    category,
    brand,
    COLORS[draw(key, 4, COLORS.length)]!,
    PART_TYPES[draw(key, 7, PART_TYPES.length)]!,
    1 + draw(key, 8, 50),
    CONTAINERS[draw(key, 9, CONTAINERS.length)]!,
  ];
}

const FIRST_DAY_UTC_MS = Date.UTC(1992, 0, 1);
const DATES_COUNT = 2557; // 1992-01-01 to 1998-12-31, with the leap days of 1992 and 1996
const WEEKDAYS = words('Sunday Monday Tuesday Wednesday Thursday Friday Saturday');
const MONTHS = words('January February March April May June July August September October November December');
const SEASONS = words('Winter Winter Winter Spring Summer Summer Summer Summer Fall Fall Christmas Christmas');
const HOLIDAYS = new Set(words('1-1 2-20 4-20 5-20 7-20 8-20 9-20 10-20 11-20 12-24')); // month-day

function dateRow(index: number): SsbValue[] {
  const date = new Date(FIRST_DAY_UTC_MS + index * dayMs);
  const [year, month, day, weekday] = [date.getUTCFullYear(), date.getUTCMonth(), date.getUTCDate(), date.getUTCDay()];
  const dayOfYear = (date.getTime() - Date.UTC(year, 0, 1)) / dayMs + 1;
  const isLastOfMonth = new Date(date.getTime() + dayMs).getUTCDate() === 1;
  const monthName = MONTHS[month]!;
  return [
    year * 10_000 + (month + 1) * 100 + day,
    `${monthName} ${day}, ${year}`,
    WEEKDAYS[weekday]!,
    monthName,
    year,
    year * 100 + month + 1,
    `${monthName.slice(0, 3)}${year}`,
    weekday + 1,
    day,
    dayOfYear,
    month + 1,
    Math.floor((dayOfYear - 1) / 7) + 1,
    SEASONS[month]!,
    weekday === 6,
    isLastOfMonth,
    HOLIDAYS.has(`${month + 1}-${day}`),
    weekday !== 0 && weekday !== 6,
  ];
}

const DATE_KEYS: readonly number[] = Array.from({ length: DATES_COUNT }, (_, index) => dateRow(index)[0] as number);

// An order has 1 to 7 lines, each number equally often. Dealing them as shuffled sets of 1..7 keeps the mean at exactly 4, and
// shows where every order starts without counting the lines before it.
const LINES_PER_ORDER_MAX = 7;
const LINES_PER_BLOCK = 28;
const ORDERED_DAYS = DATES_COUNT - 151; // the last order is of 1998-08-02, so that every commit date is in `dates`
const COMMIT_DAYS_MIN = 30;
const COMMIT_DAYS_MAX = 90;
const CUSTOMERS_WITHOUT_ORDERS = 3; // every third customer has never ordered (TPC-H)

function orderSizes(block: number): number[] {
  const key = rowKey(STREAM.orderBlock, block);
  const sizes = [1, 2, 3, 4, 5, 6, 7];
  for (let i = LINES_PER_ORDER_MAX - 1; i > 0; i--) {
    const j = draw(key, i, i + 1);
    [sizes[i], sizes[j]] = [sizes[j]!, sizes[i]!];
  }
  return sizes;
}

function orderingCustomer(key: number, customers: number): number {
  const custkey = 1 + draw(key, 1, customers);
  if (custkey % CUSTOMERS_WITHOUT_ORDERS !== 0) return custkey;
  return custkey < customers && draw(key, 2, 2) === 1 ? custkey + 1 : custkey - 1;
}

/** TPC-H's price of a part, in cents: 900.00 to 2,098.99. */
const partPriceCents = (partkey: number): number =>
  90_000 + (Math.floor(partkey / 10) % 20_001) + (partkey % 1000) * 100;

interface KeyRanges {
  customers: number;
  suppliers: number;
  parts: number;
}

const ORD_TOTAL_PRICE = 10; // position of lo_ordtotalprice

/** Appends the lines of one order; its total is that of the lines in the table, even if the table ends within the order. */
function pushOrder(rows: SsbValue[][], order: number, firstLine: number, lines: number, ranges: KeyRanges): void {
  const orderRandom = rowKey(STREAM.order, order);
  // As TPC-H does, only 8 of every 32 order keys are used.
  const orderKey = Math.floor(order / 8) * 32 + (order % 8) + 1;
  const customer = orderingCustomer(orderRandom, ranges.customers);
  const day = draw(orderRandom, 3, ORDERED_DAYS);
  const orderDate = DATE_KEYS[day]!;
  const priority = PRIORITIES[draw(orderRandom, 4, PRIORITIES.length)]!;
  const firstRow = rows.length;
  let total = 0;
  for (let line = 0; line < lines; line++) {
    const key = rowKey(STREAM.line, firstLine + line);
    const part = 1 + draw(key, 1, ranges.parts);
    const price = partPriceCents(part);
    const quantity = 1 + draw(key, 3, 50);
    const extendedPrice = price * quantity;
    const discount = draw(key, 4, 11);
    const revenue = Math.floor((extendedPrice * (100 - discount)) / 100);
    const tax = draw(key, 5, 9);
    total += Math.floor((revenue * (100 + tax)) / 100);
    rows.push([
      orderKey,
      line + 1,
      customer,
      part,
      1 + draw(key, 2, ranges.suppliers),
      orderDate,
      priority,
      0,
      quantity,
      extendedPrice,
      0,
      discount,
      revenue,
      Math.floor((6 * price) / 10),
      tax,
      DATE_KEYS[day + COMMIT_DAYS_MIN + draw(key, 6, COMMIT_DAYS_MAX - COMMIT_DAYS_MIN + 1)]!,
      SHIP_MODES[draw(key, 7, SHIP_MODES.length)]!,
    ]);
  }
  for (let row = firstRow; row < rows.length; row++) rows[row]![ORD_TOTAL_PRICE] = total;
}

function lineorderBatch(scale: number, from: number, count: number): SsbValue[][] {
  const end = lineorderCount(scale);
  const to = Math.min(from + count, end);
  if (to <= from) return [];
  const ranges = { customers: customerCount(scale), suppliers: supplierCount(scale), parts: partCount(scale) };
  const firstBlock = Math.floor(from / LINES_PER_BLOCK);
  const lastBlock = Math.floor((to - 1) / LINES_PER_BLOCK);
  const rows: SsbValue[][] = [];
  for (let block = firstBlock; block <= lastBlock; block++) {
    let line = block * LINES_PER_BLOCK;
    let order = block * LINES_PER_ORDER_MAX;
    for (const size of orderSizes(block)) {
      const lines = Math.min(size, end - line);
      if (lines > 0 && line < to && line + lines > from) pushOrder(rows, order, line, lines, ranges);
      // The first order of the batch may have begun before it, and the last may end after it.
      if (line < from && line + lines > from) rows.splice(0, from - line);
      line += size;
      order += 1;
    }
  }
  rows.length = to - from;
  return rows;
}

const scaled = (base: number, scale: number): number => Math.max(1, Math.round(base * scale));
const customerCount = (scale: number): number => scaled(30_000, scale);
const supplierCount = (scale: number): number => scaled(2_000, scale);
const lineorderCount = (scale: number): number => scaled(6_000_000, scale);
/** The benchmark's 200,000 * floor(1 + log2 scale) is for scales from 1; below, parts shrink in proportion. */
const partCount = (scale: number): number =>
  scale < 1 ? scaled(200_000, scale) : 200_000 * Math.floor(1 + Math.log2(scale));

function dimension(
  name: string,
  columns: string,
  rowCount: (scale: number) => number,
  row: (index: number) => SsbValue[],
): SsbTable {
  const batch = (scale: number, from: number, count: number): SsbValue[][] =>
    Array.from({ length: Math.max(0, Math.min(count, rowCount(scale) - from)) }, (_, offset) => row(from + offset));
  return { name, columns: words(columns), rowCount, batch };
}

/** In an order in which they can be loaded: referenced tables come first. */
export const ssbTables: readonly SsbTable[] = [
  dimension(
    'customer',
    'c_custkey c_name c_address c_city c_nation c_region c_phone c_mktsegment',
    customerCount,
    customerRow,
  ),
  dimension('supplier', 's_suppkey s_name s_address s_city s_nation s_region s_phone', supplierCount, supplierRow),
  dimension(
    'part',
    'p_partkey p_name p_mfgr p_category p_brand1 p_color p_type p_size p_container',
    partCount,
    partRow,
  ),
  dimension(
    'dates',
    `d_datekey d_date d_dayofweek d_month d_year d_yearmonthnum d_yearmonth d_daynuminweek d_daynuminmonth
     d_daynuminyear d_monthnuminyear d_weeknuminyear d_sellingseason d_lastdayinweekfl d_lastdayinmonthfl
     d_holidayfl d_weekdayfl`,
    () => DATES_COUNT,
    dateRow,
  ),
  {
    name: 'lineorder',
    columns: words(
      `lo_orderkey lo_linenumber lo_custkey lo_partkey lo_suppkey lo_orderdate lo_orderpriority lo_shippriority
       lo_quantity lo_extendedprice lo_ordtotalprice lo_discount lo_revenue lo_supplycost lo_tax lo_commitdate
       lo_shipmode`,
    ),
    rowCount: lineorderCount,
    batch: lineorderBatch,
  },
];

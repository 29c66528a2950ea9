// The functions that a statement may use: an allow-list, so that functions of a new ClickHouse release are refused until they have been
// reviewed. Excluded are functions that read files, the network, dictionaries, tables by name, settings or the state of the server, that
// show the machine or other statements, that sleep, that take the name of a function or a serialized state as a value, and experimental
// ones. A test compares the list with the functions of the running server.

import { parseTypeText, type ServerType } from '../types/type_text.ts';

/** Names by which the parser and the analyzer of ClickHouse know operators and clauses; `system.functions` has none of them. */
const syntax = 'exists grouping interval lambda untuple';

/** Operators and scalar functions. Names are compared without regard to case. */
const scalars = `
CARDINALITY CAST CHARACTER_LENGTH CHAR_LENGTH CRC32 CRC32IEEE CRC64 DATE DATE_DIFF DATE_FORMAT DATE_TRUNC DAY DAYOFMONTH DAYOFWEEK
DAYOFYEAR FORMAT_BYTES FROM_BASE64 FROM_DAYS FROM_UNIXTIME HOUR INET6_ATON INET6_NTOA INET_ATON INET_NTOA IPv4CIDRToRange
IPv4NumToString IPv4NumToStringClassC IPv4StringToNum IPv4StringToNumOrDefault IPv4StringToNumOrNull IPv4ToIPv6 IPv6CIDRToRange
IPv6NumToString IPv6StringToNum IPv6StringToNumOrDefault IPv6StringToNumOrNull JSONArrayLength JSONExtract JSONExtractArrayRaw
JSONExtractArrayRawCaseInsensitive JSONExtractBool JSONExtractBoolCaseInsensitive JSONExtractCaseInsensitive JSONExtractFloat
JSONExtractFloatCaseInsensitive JSONExtractInt JSONExtractIntCaseInsensitive JSONExtractKeys JSONExtractKeysAndValues
JSONExtractKeysAndValuesCaseInsensitive JSONExtractKeysAndValuesRaw JSONExtractKeysAndValuesRawCaseInsensitive
JSONExtractKeysCaseInsensitive JSONExtractRaw JSONExtractRawCaseInsensitive JSONExtractString JSONExtractStringCaseInsensitive
JSONExtractUInt JSONExtractUIntCaseInsensitive JSONHas JSONLength JSONMergePatch JSONType JSON_ARRAY_LENGTH JSON_EXISTS JSON_QUERY
JSON_VALUE L1Distance L1Norm L1Normalize L2Distance L2Norm L2Normalize L2SquaredDistance L2SquaredNorm LAST_DAY LinfDistance LinfNorm
LinfNormalize LpDistance LpNorm LpNormalize MACNumToString MACStringToNum MACStringToOUI MAP_FROM_ARRAYS MD4 MD5 MICROSECOND
MILLISECOND MINUTE MONTH NANOSECOND NATURAL_SORT_KEY OCTET_LENGTH QUARTER REGEXP_EXTRACT REGEXP_MATCHES REGEXP_REPLACE REGEXP_SUBSTR
RIPEMD160 SECOND SHA1 SHA224 SHA256 SHA384 SHA512 SHA512_256 SUBSTRING_INDEX TIMESTAMP_DIFF TO_BASE64 TO_DAYS TO_UNIXTIME URLHash
URLHierarchy URLPathHierarchy UTCTimestamp UTC_timestamp UUIDNumToString UUIDStringToNum UUIDToNum UUIDv7ToDateTime YEAR
YYYYMMDDToDate YYYYMMDDToDate32 YYYYMMDDhhmmssToDateTime YYYYMMDDhhmmssToDateTime64 _CAST abs accurateCast accurateCastOrDefault
accurateCastOrNull acos acosh addDate addDays addHours addInterval addMicroseconds addMilliseconds addMinutes addMonths addNanoseconds
addQuarters addSeconds addTupleOfIntervals addWeeks addYears age alphaTokens and appendTrailingCharIfAbsent array arrayAUC arrayAUCPR
arrayAll arrayAutocorrelation arrayAvg arrayBottomK arrayCompact arrayConcat arrayCount arrayCumSum arrayCumSumNonNegative
arrayDifference arrayDistinct arrayDotProduct arrayElement arrayElementOrNull arrayEnumerate arrayEnumerateDense
arrayEnumerateDenseRanked arrayEnumerateUniq arrayEnumerateUniqRanked arrayExcept arrayExists arrayFill arrayFilter arrayFirst
arrayFirstIndex arrayFirstOrNull arrayFlatten arrayFold arrayIntersect arrayJaccardIndex arrayJoin arrayLast arrayLastIndex
arrayLastOrNull arrayLevenshteinDistance arrayLevenshteinDistanceWeighted arrayMap arrayMax arrayMin arrayNormalizedGini arrayPRAUC
arrayPartialReverseSort arrayPartialShuffle arrayPartialSort arrayPopBack arrayPopFront arrayProduct arrayPushBack arrayPushFront
arrayROCAUC arrayRandomSample arrayRemove arrayResize arrayReverse arrayReverseFill arrayReverseSort arrayReverseSplit arrayRotateLeft
arrayRotateRight arrayShiftLeft arrayShiftRight arrayShingles arrayShuffle arraySimilarity arraySlice arraySort arraySplit
arrayStringConcat arraySum arraySymmetricDifference arrayTopK arrayTranspose arrayUnion arrayUniq arrayWithConstant arrayZip
arrayZipUnaligned array_remove array_to_string ascii asin asinh assumeNotNull atan atan2 atanh avg2 bar base32Decode base32Encode
base58Decode base58Encode base64Decode base64Encode base64URLDecode base64URLEncode basename bin bitAnd bitCount bitHammingDistance
bitNot bitOr bitPositionsToArray bitRotateLeft bitRotateRight bitShiftLeft bitShiftRight bitSlice bitTest bitTestAll bitTestAny bitXor
bitmaskToArray bitmaskToList byteHammingDistance byteSize byteSlice byteSwap caseFoldUTF8 caseWithExpr caseWithExpression
caseWithoutExpr caseWithoutExpression cbrt ceil ceiling changeDay changeHour changeMinute changeMonth changeSecond changeYear char
cityHash64 clamp coalesce compareSubstrings concat concatAssumeInjective concatWithSeparator concatWithSeparatorAssumeInjective
concat_ws conv cos cosh cosineDistance countDigits countEqual countMatches countMatchesCaseInsensitive countSubstrings
countSubstringsCaseInsensitive countSubstringsCaseInsensitiveUTF8 curdate current_date current_timestamp cutFragment cutIPv6
cutQueryString cutQueryStringAndFragment cutToFirstSignificantSubdomain cutToFirstSignificantSubdomainCustom
cutToFirstSignificantSubdomainCustomRFC cutToFirstSignificantSubdomainCustomWithWWW cutToFirstSignificantSubdomainCustomWithWWWRFC
cutToFirstSignificantSubdomainRFC cutToFirstSignificantSubdomainWithWWW cutToFirstSignificantSubdomainWithWWWRFC cutURLParameter
cutWWW damerauLevenshteinDistance dateDiff dateName dateTime64ToSnowflakeID dateTimeToSnowflakeID dateTimeToUUIDv7 dateTrunc date_bin
decodeHTMLComponent decodeURLComponent decodeURLFormComponent decodeXMLComponent degrees digits distanceCosine distanceL1 distanceL2
distanceL2Squared distanceLinf distanceLp divide divideDecimal divideOrNull domain domainRFC domainWithoutWWW domainWithoutWWWRFC
dotProduct e editDistance editDistanceUTF8 empty emptyArrayDate emptyArrayDateTime emptyArrayFloat32 emptyArrayFloat64 emptyArrayInt16
emptyArrayInt32 emptyArrayInt64 emptyArrayInt8 emptyArrayString emptyArrayToSingle emptyArrayUInt16 emptyArrayUInt32 emptyArrayUInt64
emptyArrayUInt8 encodeURLComponent encodeURLFormComponent encodeXMLComponent endsWith endsWithCaseInsensitive
endsWithCaseInsensitiveUTF8 endsWithUTF8 equals erf erfc exp exp10 exp2 extract extractAll extractAllGroups extractAllGroupsHorizontal
extractAllGroupsVertical extractGroups extractKeyValuePairs extractKeyValuePairsWithEscaping extractTextFromHTML extractURLParameter
extractURLParameterNames extractURLParameters factorial farmFingerprint64 farmHash64 financialInternalRateOfReturn
financialInternalRateOfReturnExtended financialNetPresentValue financialNetPresentValueExtended firstLine firstNonDefault
firstSignificantSubdomain firstSignificantSubdomainCustom firstSignificantSubdomainCustomRFC firstSignificantSubdomainRFC flatten
flattenTuple floor format formatDateTime formatDateTimeInJodaSyntax formatReadableDecimalSize formatReadableQuantity
formatReadableSize formatReadableTimeDelta fragment fromDaysSinceYearZero fromDaysSinceYearZero32 fromModifiedJulianDay
fromModifiedJulianDayOrNull fromUTCTimestamp fromUnixTimestamp fromUnixTimestamp64Micro fromUnixTimestamp64Milli
fromUnixTimestamp64Nano fromUnixTimestamp64Second fromUnixTimestampInJodaSyntax from_utc_timestamp gccMurmurHash gcd generateUUIDv4
generateUUIDv7 geoDistance geoToH3 geohashDecode geohashEncode globalIn globalNotIn greatCircleAngle greatCircleDistance greater
greaterOrEquals greatest h3GetResolution h3IsValid h3ToGeo h3ToParent h3ToString halfMD5 has hasAll hasAllToken hasAllTokens hasAny
hasAnyToken hasAnyTokens hasPhrase hasSubsequence hasSubsequenceCaseInsensitive hasSubsequenceCaseInsensitiveUTF8 hasSubsequenceUTF8
hasSubstr hasToken hasTokenCaseInsensitive hasTokenCaseInsensitiveOrNull hasTokenOrNull hex hilbertDecode hilbertEncode hiveHash hypot
icebergHash identity if ifNotFinite ifNull ignore ilike in indexOf indexOfAssumeSorted initcap initcapUTF8 instr intDiv intDivOrNull
intDivOrZero intExp10 intExp2 intHash32 intHash64 isASCII isConstant isDecimalOverflow isDistinctFrom isFinite isIPAddressInRange
isIPv4String isIPv6String isInfinite isNaN isNotDistinctFrom isNotNull isNull isNullable isPrime isProbablePrime isValidASCII
isValidJSON isValidUTF8 isZeroOrNull jaroSimilarity jaroWinklerSimilarity javaHash javaHashUTF16LE jumpConsistentHash kafkaMurmurHash
keccak256 kostikConsistentHash lcase lcm least left leftPad leftPadUTF8 leftUTF8 length lengthUTF8 less lessOrEquals
levenshteinDistance levenshteinDistanceUTF8 lgamma like ln localtime localtimestamp locate log log10 log1p log2 lower lowerUTF8 lpad
ltrim makeDate makeDate32 makeDateTime makeDateTime64 map mapAdd mapAll mapApply mapConcat mapContains mapContainsKey
mapContainsKeyLike mapContainsValue mapContainsValueLike mapExists mapExtractKeyLike mapExtractValueLike mapFilter mapFromArrays
mapFromString mapKeys mapPartialReverseSort mapPartialSort mapPopulateSeries mapReverseSort mapSort mapSubtract mapUpdate mapValues
match matchPhrase materialize max2 metroHash64 mid midpoint min2 minus mismatches mod modOrNull modulo moduloOrNull moduloOrZero
monthName mortonDecode mortonEncode multiIf multiSearchAllPositions multiSearchAllPositionsCaseInsensitive
multiSearchAllPositionsCaseInsensitiveUTF8 multiSearchAllPositionsUTF8 multiSearchAny multiSearchAnyCaseInsensitive
multiSearchAnyCaseInsensitiveUTF8 multiSearchAnyUTF8 multiSearchFirstIndex multiSearchFirstIndexCaseInsensitive
multiSearchFirstIndexCaseInsensitiveUTF8 multiSearchFirstIndexUTF8 multiSearchFirstPosition multiSearchFirstPositionCaseInsensitive
multiSearchFirstPositionCaseInsensitiveUTF8 multiSearchFirstPositionUTF8 multiply multiplyDecimal murmurHash2_32 murmurHash2_64
murmurHash3_128 murmurHash3_32 murmurHash3_64 naturalSortKey negate netloc ngramDistance ngramDistanceCaseInsensitive
ngramDistanceCaseInsensitiveUTF8 ngramDistanceUTF8 ngramMinHash ngramMinHashCaseInsensitive ngramMinHashCaseInsensitiveUTF8
ngramMinHashUTF8 ngramSearch ngramSearchCaseInsensitive ngramSearchCaseInsensitiveUTF8 ngramSearchUTF8 ngramSimHash
ngramSimHashCaseInsensitive ngramSimHashCaseInsensitiveUTF8 ngramSimHashUTF8 ngrams normL1 normL2 normL2Squared normLinf normLp
normalizeL1 normalizeL2 normalizeLinf normalizeLp normalizeUTF8NFC normalizeUTF8NFD normalizeUTF8NFKC normalizeUTF8NFKCCasefold
normalizeUTF8NFKD not notEmpty notEquals notILike notIn notLike now now64 nullIf or overlay overlayUTF8 parseDateTime
parseDateTime32BestEffort parseDateTime32BestEffortOrNull parseDateTime32BestEffortOrZero parseDateTime64 parseDateTime64BestEffort
parseDateTime64BestEffortOrNull parseDateTime64BestEffortOrZero parseDateTime64BestEffortUS parseDateTime64BestEffortUSOrNull
parseDateTime64BestEffortUSOrZero parseDateTime64InJodaSyntax parseDateTime64InJodaSyntaxOrNull parseDateTime64InJodaSyntaxOrZero
parseDateTime64OrNull parseDateTime64OrZero parseDateTimeBestEffort parseDateTimeBestEffortOrNull parseDateTimeBestEffortOrZero
parseDateTimeBestEffortUS parseDateTimeBestEffortUSOrNull parseDateTimeBestEffortUSOrZero parseDateTimeInJodaSyntax
parseDateTimeInJodaSyntaxOrNull parseDateTimeInJodaSyntaxOrZero parseDateTimeOrNull parseDateTimeOrZero parseReadableSize
parseReadableSizeOrNull parseReadableSizeOrZero parseTimeDelta path pathFull pi plus pmod pmodOrNull pointInEllipses pointInPolygon
port portRFC position positionCaseInsensitive positionCaseInsensitiveUTF8 positionUTF8 positiveModulo positiveModuloOrNull
positive_modulo positive_modulo_or_null pow power prettyPrintJSON printf proportionsZTest protocol queryString queryStringAndFragment
radians rand rand32 rand64 randBernoulli randBinomial randCanonical randChiSquared randConstant randExponential randFisherF
randLogNormal randNegativeBinomial randNormal randPoisson randStudentT randUniform range regexpExtract regexpInstr regexpPosition
regexpQuoteMeta regexp_instr removeAccentsUTF8 removeDiacriticsUTF8 repeat replace replaceAll replaceOne replaceRegexpAll
replaceRegexpOne replicate reverse reverseBySeparator reverseUTF8 right rightPad rightPadUTF8 rightUTF8 round roundAge roundBankers
roundDown roundDuration roundToExp2 rpad rtrim scalarProduct sigmoid sign simpleJSONExtractBool simpleJSONExtractFloat
simpleJSONExtractInt simpleJSONExtractRaw simpleJSONExtractString simpleJSONExtractUInt simpleJSONHas sin sinh sipHash128
sipHash128Keyed sipHash128Reference sipHash128ReferenceKeyed sipHash64 sipHash64Keyed snowflakeIDToDateTime snowflakeIDToDateTime64
soundex space splitByAlpha splitByChar splitByNonAlpha splitByRegexp splitByString splitByWhitespace sqid sqidDecode sqidEncode sqr
sqrt startsWith startsWithCaseInsensitive startsWithCaseInsensitiveUTF8 startsWithUTF8 str_to_date str_to_map stringBytesEntropy
stringBytesUniq stringJaccardIndex stringJaccardIndexUTF8 stringToH3 subDate substr substring substringIndex substringIndexUTF8
substringUTF8 subtractDays subtractHours subtractInterval subtractMicroseconds subtractMilliseconds subtractMinutes subtractMonths
subtractNanoseconds subtractQuarters subtractSeconds subtractTupleOfIntervals subtractWeeks subtractYears tan tanh tgamma throwIf
timeDiff timeSlot timeSlots timeZoneOf timeZoneOffset time_bucket timestamp timestampDiff toBFloat16 toBFloat16OrNull toBFloat16OrZero
toBool toDate toDate32 toDate32OrDefault toDate32OrNull toDate32OrZero toDateOrDefault toDateOrNull toDateOrZero toDateTime
toDateTime32 toDateTime64 toDateTime64OrDefault toDateTime64OrNull toDateTime64OrZero toDateTimeOrDefault toDateTimeOrNull
toDateTimeOrZero toDayOfMonth toDayOfWeek toDayOfYear toDaysInMonth toDaysSinceYearZero toDecimal128 toDecimal128OrDefault
toDecimal128OrNull toDecimal128OrZero toDecimal256 toDecimal256OrDefault toDecimal256OrNull toDecimal256OrZero toDecimal32
toDecimal32OrDefault toDecimal32OrNull toDecimal32OrZero toDecimal64 toDecimal64OrDefault toDecimal64OrNull toDecimal64OrZero
toDecimalString toFixedString toFloat32 toFloat32OrDefault toFloat32OrNull toFloat32OrZero toFloat64 toFloat64OrDefault
toFloat64OrNull toFloat64OrZero toHour toIPv4 toIPv4OrDefault toIPv4OrNull toIPv4OrZero toIPv6 toIPv6OrDefault toIPv6OrNull
toIPv6OrZero toISOWeek toISOYear toInt128 toInt128OrDefault toInt128OrNull toInt128OrZero toInt16 toInt16OrDefault toInt16OrNull
toInt16OrZero toInt256 toInt256OrDefault toInt256OrNull toInt256OrZero toInt32 toInt32OrDefault toInt32OrNull toInt32OrZero toInt64
toInt64OrDefault toInt64OrNull toInt64OrZero toInt8 toInt8OrDefault toInt8OrNull toInt8OrZero toInterval toIntervalDay toIntervalHour
toIntervalMicrosecond toIntervalMillisecond toIntervalMinute toIntervalMonth toIntervalNanosecond toIntervalQuarter toIntervalSecond
toIntervalWeek toIntervalYear toJSONString toLastDayOfMonth toLastDayOfWeek toLowCardinality toMicrosecond toMillisecond toMinute
toModifiedJulianDay toModifiedJulianDayOrNull toMonday toMonth toMonthNumSinceEpoch toNanosecond toNullable toQuarter toRelativeDayNum
toRelativeHourNum toRelativeMinuteNum toRelativeMonthNum toRelativeQuarterNum toRelativeSecondNum toRelativeWeekNum toRelativeYearNum
toSecond toStartOfDay toStartOfFifteenMinutes toStartOfFiveMinute toStartOfFiveMinutes toStartOfHour toStartOfISOYear
toStartOfInterval toStartOfMicrosecond toStartOfMillisecond toStartOfMinute toStartOfMonth toStartOfNanosecond toStartOfQuarter
toStartOfSecond toStartOfTenMinutes toStartOfWeek toStartOfYear toString toStringCutToZero toTime toTime64 toTime64OrNull
toTime64OrZero toTimeOrNull toTimeOrZero toTimeWithFixedDate toTimeZone toTypeName toUInt128 toUInt128OrDefault toUInt128OrNull
toUInt128OrZero toUInt16 toUInt16OrDefault toUInt16OrNull toUInt16OrZero toUInt256 toUInt256OrDefault toUInt256OrNull toUInt256OrZero
toUInt32 toUInt32OrDefault toUInt32OrNull toUInt32OrZero toUInt64 toUInt64OrDefault toUInt64OrNull toUInt64OrZero toUInt8
toUInt8OrDefault toUInt8OrNull toUInt8OrZero toUTCTimestamp toUUID toUUIDOrDefault toUUIDOrNull toUUIDOrZero toUnixTimestamp
toUnixTimestamp64Micro toUnixTimestamp64Milli toUnixTimestamp64Nano toUnixTimestamp64Second toValidUTF8 toWeek toYYYYMM toYYYYMMDD
toYYYYMMDDhhmmss toYear toYearNumSinceEpoch toYearWeek to_utc_timestamp today tokens tokensForLikePattern topLevelDomain
topLevelDomainRFC transform translate translateUTF8 trim trimBoth trimLeft trimRight trunc truncate tryBase32Decode tryBase58Decode
tryBase64Decode tryBase64URLDecode tuple tupleConcat tupleDivide tupleDivideByNumber tupleElement tupleHammingDistance tupleIntDiv
tupleIntDivByNumber tupleIntDivOrZero tupleIntDivOrZeroByNumber tupleMinus tupleModulo tupleModuloByNumber tupleMultiply
tupleMultiplyByNumber tupleNames tupleNegate tuplePlus tuplePositiveModuloByNumber tupleToNameValuePairs ucase unbin unhex unnest
upper upperUTF8 vectorDifference vectorSum visibleWidth visitParamExtractBool visitParamExtractFloat visitParamExtractInt
visitParamExtractRaw visitParamExtractString visitParamExtractUInt visitParamHas week widthBucket width_bucket wordShingleMinHash
wordShingleMinHashCaseInsensitive wordShingleMinHashCaseInsensitiveUTF8 wordShingleMinHashUTF8 wordShingleSimHash
wordShingleSimHashCaseInsensitive wordShingleSimHashCaseInsensitiveUTF8 wordShingleSimHashUTF8 wyHash64 xor xxHash32 xxHash64
xxHash64Spark xxh3 xxh3_128 yandexConsistentHash yearweek yesterday`;

/** Aggregate and window functions, to which the combinators below may be added. */
const aggregates = `
BIT_AND BIT_OR BIT_XOR COVAR_POP COVAR_SAMP STD STDDEV STDDEV_POP STDDEV_SAMP VAR_POP VAR_SAMP analysisOfVariance anova any anyHeavy
anyLast anyLastRespectNulls anyLast_respect_nulls anyRespectNulls anyValueRespectNulls any_respect_nulls any_value
any_value_respect_nulls approx_top_count approx_top_k approx_top_sum argAndMax argAndMin argMax argMin array_agg avg avgWeighted
boundingRatio categoricalInformationValue contingency corr corrMatrix corrStable count covarPop covarPopMatrix covarPopStable
covarSamp covarSampMatrix covarSampStable cramersV cramersVBiasCorrected cume_dist deltaSum deltaSumTimestamp denseRank dense_rank
entropy exponentialMovingAverage exponentialTimeDecayedAvg exponentialTimeDecayedCount exponentialTimeDecayedMax
exponentialTimeDecayedSum firstValueRespectNulls first_value first_value_respect_nulls groupArray groupArrayInsertAt
groupArrayIntersect groupArrayLast groupArrayMovingAvg groupArrayMovingSum groupArraySample groupArraySorted groupBitAnd groupBitOr
groupBitXor groupConcat groupUniqArray group_concat histogram intervalLengthSum kolmogorovSmirnovTest kurtPop kurtSamp lag lagInFrame
largestTriangleThreeBuckets lastValueRespectNulls last_value last_value_respect_nulls lead leadInFrame lttb mannWhitneyUTest max
maxIntersections maxIntersectionsPosition maxMappedArrays max_by meanZTest median medianBFloat16 medianBFloat16Weighted medianDD
medianDeterministic medianExact medianExactHigh medianExactLow medianExactWeighted medianExactWeightedInterpolated medianGK
medianInterpolatedWeighted medianTDigest medianTDigestWeighted medianTiming medianTimingWeighted min minMappedArrays min_by
nonNegativeDerivative nth_value ntile percentRank percent_rank quantile quantileBFloat16 quantileBFloat16Weighted quantileDD
quantileDeterministic quantileExact quantileExactExclusive quantileExactHigh quantileExactInclusive quantileExactLow
quantileExactWeighted quantileExactWeightedInterpolated quantileGK quantileInterpolatedWeighted quantileTDigest
quantileTDigestWeighted quantileTiming quantileTimingWeighted quantiles quantilesBFloat16 quantilesBFloat16Weighted quantilesDD
quantilesDeterministic quantilesExact quantilesExactExclusive quantilesExactHigh quantilesExactInclusive quantilesExactLow
quantilesExactWeighted quantilesExactWeightedInterpolated quantilesGK quantilesInterpolatedWeighted quantilesTDigest
quantilesTDigestWeighted quantilesTiming quantilesTimingWeighted rank rankCorr retention row_number sequenceCount sequenceMatch
sequenceMatchEvents sequenceNextNode simpleLinearRegression singleValueOrNull skewPop skewSamp sparkBar stddevPop stddevPopStable
stddevSamp stddevSampStable string_agg studentTTest studentTTestOneSample sum sumCount sumKahan sumMapFiltered
sumMapFilteredWithOverflow sumMapWithOverflow sumMappedArrays sumWithOverflow theilsU topK topKWeighted uniq uniqCombined
uniqCombined64 uniqExact uniqHLL12 uniqUpTo varPop varPopStable varSamp varSampStable welchTTest windowFunnel`;

/** Combinators whose result is a value. Excluded are those that make or read serialized states, and `Resample`, which multiplies them. */
const combinators = ['If', 'Distinct', 'OrNull', 'OrDefault', 'Array', 'ForEach', 'Map', 'ArgMin', 'ArgMax'];
const combinatorsMax = 3;

const namesIn = (text: string): ReadonlySet<string> => new Set(text.toLowerCase().trim().split(/\s+/));

const syntaxFunctions = namesIn(syntax);
/** In lower case. */
export const allowedScalars = namesIn(scalars);
export const allowedAggregates = namesIn(aggregates);

/** Table functions that read nothing. */
export const allowedTableFunctions: ReadonlySet<string> = new Set([
  'SQLStandardValues',
  'generateSeries',
  'generate_series',
  'numbers',
  'zeros',
]);

/** Functions whose last argument is the text of a type. */
const functionsOfTypes: ReadonlySet<string> = namesIn(
  '_cast accuratecast accuratecastordefault accuratecastornull cast jsonextract jsonextractcaseinsensitive jsonextractkeysandvalues jsonextractkeysandvaluescaseinsensitive',
);
export const takesType = (name: string): boolean => functionsOfTypes.has(name.toLowerCase());

/** Functions of which one argument can be the name of a table; all others take values. */
const membership: ReadonlySet<string> = new Set(['in', 'notin', 'globalin', 'globalnotin']);
export const isMembership = (name: string): boolean => membership.has(name.toLowerCase());

const varying: ReadonlySet<string> = new Set(
  `curdate current_date current_timestamp generateuuidv4 generateuuidv7 localtime localtimestamp now now64 rand rand32 rand64 randbernoulli
randbinomial randcanonical randchisquared randconstant randexponential randfisherf randlognormal randnegativebinomial randnormal randpoisson
randstudentt randuniform today utc_timestamp utctimestamp yesterday`.split(/\s+/),
);

/** Whether another server, or the same one later, computes another value. */
export const isVarying = (name: string): boolean => varying.has(name.toLowerCase());

export function isAllowedFunction(name: string): boolean {
  const lower = name.toLowerCase();
  if (allowedScalars.has(lower) || syntaxFunctions.has(lower)) return true;
  return isAllowedAggregate(name, combinatorsMax);
}

function isAllowedAggregate(name: string, depth: number): boolean {
  if (allowedAggregates.has(name.toLowerCase())) return true;
  if (depth === 0) return false;
  const combinator = combinators.find((suffix) => name.length > suffix.length && name.endsWith(suffix));
  return combinator !== undefined && isAllowedAggregate(name.slice(0, -combinator.length), depth - 1);
}

/** The words of the types to which a statement may cast. Excluded are states of aggregates and types that are experimental. */
const typeWords: ReadonlySet<string> = namesIn(`
  array bigint binary blob bool boolean bytea byte char character clob date date32 datetime datetime32 datetime64 dec decimal decimal128 decimal256 decimal32
  decimal64 double enum enum16 enum8 fixed fixedstring float float32 float64 geometry inet4 inet6 int int1 int128 int16 int256 int32 int64 int8 integer
  intervalday intervalhour intervalmicrosecond intervalmillisecond intervalminute intervalmonth intervalquarter intervalsecond
  intervalweek intervalyear ipv4 ipv6 large longblob longtext lowcardinality map mediumblob mediumint mediumtext multipolygon
  national nchar nothing nullable numeric nvarchar point polygon precision real ring set signed single smallint string text time time64 timestamp tinyblob
  tinyint tinytext tuple uint128 uint16 uint256 uint32 uint64 uint8 unsigned uuid varbinary varchar variant varying year`);

const typeCharactersMax = 4_096;

/** What of a type's text is no type of values; undefined if all of it is. */
export function refusedType(text: string): string | undefined {
  const type = text.length > typeCharactersMax ? undefined : parseTypeText(text);
  return type ? refusedIn(type) : text.slice(0, 40);
}

function refusedIn({ name, parts }: ServerType): string | undefined {
  const isMarker =
    name === 'SimpleAggregateFunction' && /^any(?:Last)?$/.test(parts[0]?.text ?? '') && parts.length === 2;
  // Values of BINARY and JSON have this type (types/type_mapping.ts): its state is the value itself.
  if (isMarker) return parts[1]?.type && refusedIn(parts[1].type);
  if (!typeWords.has(name.toLowerCase())) return name;
  for (const { text, type } of parts) {
    const refused = type ? refusedIn(type) : /^(?:\d+|'.*)$/s.test(text) ? undefined : text.slice(0, 40);
    if (refused !== undefined) return refused;
  }
  return undefined;
}

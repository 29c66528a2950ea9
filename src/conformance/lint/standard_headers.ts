// Which HTTP fields are standard: the permanent entries of IANA's registry "Hypertext Transfer Protocol (HTTP) Field Name Registry" that a REST
// API may meet, and the form of extensions (rest-standard A5).

const names = `accept accept-charset accept-encoding accept-language accept-patch accept-post accept-query accept-ranges accept-signature
access-control-allow-credentials access-control-allow-headers access-control-allow-methods access-control-allow-origin
access-control-expose-headers access-control-max-age access-control-request-headers access-control-request-method age allow alpn alt-svc
alt-used authentication-control authentication-info authorization available-dictionary cache-control cache-status cal-managed-id capsule-protocol
cdn-cache-control cdn-loop cert-not-after cert-not-before clear-site-data client-cert client-cert-chain close connection content-digest
content-disposition content-encoding content-language content-length content-location content-range content-security-policy
content-security-policy-report-only content-type cookie cross-origin-embedder-policy cross-origin-embedder-policy-report-only
cross-origin-opener-policy cross-origin-opener-policy-report-only cross-origin-resource-policy dasl date dav deprecation depth destination
dictionary-id dpop dpop-nonce early-data etag expect expires forwarded from host http2-settings if if-match if-modified-since if-none-match
if-range if-schedule-tag-match if-unmodified-since include-referred-token-binding-id integrity-policy keep-alive label last-event-id last-modified link
link-template location lock-token max-forwards memento-datetime mime-version negotiate nel ocsp-response optional-www-authenticate
ordering-type origin origin-agent-cluster oscore oslc-core-version overwrite ping-from ping-to position pragma prefer preference-applied priority
proxy-authenticate proxy-authentication-info proxy-authorization proxy-status public-key-pins public-key-pins-report-only range
redirect-ref referer referrer-policy refresh replay-nonce repr-digest retry-after schedule-reply schedule-tag sec-fetch-dest sec-fetch-mode sec-fetch-site sec-fetch-user
sec-gpc sec-purpose sec-token-binding sec-websocket-accept sec-websocket-extensions sec-websocket-key sec-websocket-protocol
sec-websocket-version server server-timing set-cookie signature signature-input slug soapaction status-uri strict-transport-security sunset
surrogate-capability surrogate-control tcn te timeout timing-allow-origin topic traceparent tracestate trailer transfer-encoding ttl upgrade
urgency use-as-dictionary user-agent vary via want-content-digest want-digest want-repr-digest www-authenticate x-content-type-options
x-frame-options idempotency-key digest warning`;
const standard = new Set(names.split(/\s+/));

/** In any case, as HTTP compares them. */
export const isStandardHeader = (name: string): boolean => standard.has(name.toLowerCase());

export const extensionHeader = /^x-service-[a-z0-9]+(?:-[a-z0-9]+)*$/;

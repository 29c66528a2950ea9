// The nonce of this page's content security policy, which style elements made by scripts must have.
export const cspNonce: string = document.querySelector<HTMLMetaElement>('meta[name="csp-nonce"]')?.content ?? '';

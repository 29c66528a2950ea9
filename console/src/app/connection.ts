// Whether the server answers. After a request without an answer the page asks for the readiness of the server until it is ready; what
// could not be read is then read again.
import { useSyncExternalStore } from 'react';

const probeEveryMs = 1000;
const probeTimeoutMs = 5000;

let isLost = false;
let isProbing = false;
const stateListeners = new Set<() => void>();
const reconnectListeners = new Set<() => void>();

function setLost(next: boolean): void {
  if (isLost === next) return;
  isLost = next;
  for (const listener of stateListeners) listener();
}

async function isReady(): Promise<boolean> {
  try {
    const signal = AbortSignal.timeout(probeTimeoutMs);
    const { status } = await fetch('/readyz', { credentials: 'omit', cache: 'no-store', signal });
    return status < 500;
  } catch {
    return false;
  }
}

/** To be called after a request without an answer. */
export async function probeServer(): Promise<void> {
  if (isProbing) return;
  isProbing = true;
  while (!(await isReady())) {
    setLost(true);
    await new Promise((resolve) => setTimeout(resolve, probeEveryMs));
  }
  isProbing = false;
  setLost(false);
  for (const listener of reconnectListeners) listener();
}

/** Called when the server answers again after a request without an answer. */
export const onReconnect = (listener: () => void): void => void reconnectListeners.add(listener);

const subscribe = (listener: () => void) => {
  stateListeners.add(listener);
  return () => void stateListeners.delete(listener);
};

export const useIsConnectionLost = (): boolean => useSyncExternalStore(subscribe, () => isLost);

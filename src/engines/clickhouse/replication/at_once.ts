// Work for several tables of a server, of which a few are asked about at once: most of the time passes while it waits for Keeper.

/** More would occupy a server that has other work. */
const atOnceMax = 6;

/** @returns the results in the order of the items. Throws what the first call throws that fails; no other one is begun then. */
export async function atOnce<T, R>(items: readonly T[], work: (item: T) => Promise<R>): Promise<R[]> {
  const results = new Array<R>(items.length);
  const entries = items.entries();
  let hasFailed = false;
  const worker = async () => {
    for (const [index, item] of entries) {
      if (hasFailed) return;
      try {
        results[index] = await work(item);
      } catch (error) {
        hasFailed = true;
        throw error;
      }
    }
  };
  await Promise.all(Array.from({ length: Math.min(atOnceMax, items.length) }, worker));
  return results;
}

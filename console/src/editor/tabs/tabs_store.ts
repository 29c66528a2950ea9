// The tabs of the editor. Each change is at once in memory and in the session storage of the browser's tab, and within a second of a pause
// in a draft on the server, so that no text is lost: not by a reload, a crash, an expired sign-in, or by closing a tab.
import { useSyncExternalStore } from 'react';
import { errors } from '../../../../src/client/index.ts';
import { randomId } from '../../../../src/client/random_id.ts';
import { client, lastMomentClient, sessionUser } from '../../app/session.ts';
import { bodyOf, closedAtOf, type DraftRecord, type Tab, type TabContent, tabOf } from './tab.ts';

const savePauseMs = 700;
const retryMs = 10_000;
/** Of tabs that were closed; older ones are deleted. */
const closedMax = 30;
const pageSize = 200;

interface State {
  readonly tabs: readonly Tab[];
  readonly activeId: string;
  /** Latest first. */
  readonly closed: readonly DraftRecord[];
}

const emptyContent = (name: string): TabContent => ({
  name,
  sql: '',
  place: { catalog: 'default' },
  parameters: null,
  savedQuery: null,
  chart: null,
});

const newTab = (content: TabContent): Tab => ({
  ...content,
  id: randomId(),
  version: undefined,
  save: 'saved',
});

class TabsStore {
  #user: string | undefined;
  #state: State = initialState();
  readonly #listeners = new Set<() => void>();
  readonly #timers = new Map<string, ReturnType<typeof setTimeout>>();
  /** Ids of tabs that the user opened: unlike the first one, they stay when drafts arrive, even without text. */
  readonly #opened = new Set<string>();
  /** Ids of tabs that are being saved: one request at a time for each. */
  readonly #saving = new Set<string>();
  /** When the last request that writes a draft ended, by its id; Infinity while it is under way. */
  readonly #writtenAt = new Map<string, number>();

  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  };
  readonly state = (): State => this.#state;

  /** Shows the tabs of the user who is signed in: those of this browser's tab at once, then what the server has. */
  async load(): Promise<void> {
    const user = sessionUser();
    if (user === undefined) return;
    if (this.#user !== user) {
      this.#user = user;
      this.#change(restored(user) ?? initialState());
    }
    const since = performance.now();
    const records = await client.drafts.list({ pageSize }).all();
    if (this.#user !== user) return;
    this.#merge(records, (id) => (this.#writtenAt.get(id) ?? 0) >= since);
    for (const { id, save } of this.#state.tabs) if (save !== 'saved') void this.#save(id);
  }

  /**
   * A tab that is being edited keeps its text; saving it finds out whether it was changed elsewhere. `isOutdated`: the list may lack what
   * this page wrote of a draft while it was read, so it says nothing about that draft.
   */
  #merge(listed: readonly DraftRecord[], isOutdated: (draftId: string) => boolean): void {
    const records = [
      ...listed.filter(({ draftId }) => !isOutdated(draftId)),
      ...this.#state.closed.filter(({ draftId }) => isOutdated(draftId)),
    ];
    const open = records.filter((record) => closedAtOf(record) === undefined);
    const byId = new Map(open.map((record) => [record.draftId, record]));
    const known = this.#state.tabs.flatMap((tab): Tab[] => {
      const record = byId.get(tab.id);
      byId.delete(tab.id);
      if (tab.save !== 'saved' || isOutdated(tab.id)) return [tab];
      if (record) return [{ ...tabOf(record), chart: tab.chart }];
      // Without a record, it was closed elsewhere; one that never had text is kept.
      return tab.version === undefined ? [tab] : [];
    });
    const added = [...byId.values()].sort((a, b) => (a.createdAt < b.createdAt ? -1 : 1)).map(tabOf);
    const isUntouched = ({ id, version, sql }: Tab) => version === undefined && sql === '' && !this.#opened.has(id);
    const kept = added.length > 0 ? known.filter((tab) => !isUntouched(tab)) : known;
    const isNew = ({ version }: Tab) => version === undefined;
    const tabs = [...kept.filter((tab) => !isNew(tab)), ...added];
    for (const tab of kept.filter(isNew)) tabs.push(renumbered(tab, tabs));
    const closed = records
      .filter((record) => closedAtOf(record) !== undefined)
      .sort((a, b) => ((closedAtOf(a) ?? '') < (closedAtOf(b) ?? '') ? 1 : -1));
    for (const { draftId } of closed.slice(closedMax))
      void client
        .drafts(draftId)
        .delete()
        .catch(() => undefined);
    this.#change({ ...withTabs(this.#state, tabs), closed: closed.slice(0, closedMax) });
  }

  activate(id: string): void {
    this.#change({ ...this.#state, activeId: id });
  }

  /** Opens a tab with the given content, in the place of an active one without text. */
  open(content: Partial<TabContent> = {}): void {
    const { tabs, activeId } = this.#state;
    const tab = newTab({ ...emptyContent(nextName(tabs)), ...content });
    this.#opened.add(tab.id);
    const active = tabs.find(({ id }) => id === activeId);
    const kept =
      active?.sql === '' && active.version === undefined && content.sql ? tabs.filter((t) => t !== active) : tabs;
    this.#change({ ...this.#state, tabs: [...kept, tab], activeId: tab.id });
    if (tab.sql !== '') this.update(tab.id, {});
  }

  update(id: string, change: Partial<TabContent>): void {
    this.#replace(id, { ...change, save: 'unsaved' });
    this.#schedule(id, savePauseMs);
  }

  /** Changes the text that the tab has by then, if it is still open. */
  updateText(id: string, change: (sql: string) => string): void {
    const tab = this.#find(id);
    if (tab) this.update(id, { sql: change(tab.sql) });
  }

  /** Of the result of a tab; no change of its text. */
  keepChart(id: string, chart: unknown): void {
    this.#replace(id, { chart });
  }

  /** Closes a tab; its text can be reopened. */
  async close(id: string): Promise<void> {
    const tab = this.#find(id);
    if (!tab) return;
    const { tabs } = this.#state;
    this.#change(
      withTabs(
        this.#state,
        tabs.filter((candidate) => candidate !== tab),
      ),
    );
    clearTimeout(this.#timers.get(id));
    if (tab.sql.trim() === '') {
      if (tab.version !== undefined) await this.#write(id, client.drafts(id).delete()).catch(() => undefined);
      return;
    }
    const body = bodyOf(tab, new Date().toISOString());
    const request =
      tab.version === undefined
        ? client.drafts.create({ draftId: id, ...body }, { ifExists: 'return' })
        : client.drafts(id).update(body);
    const record = await this.#write(id, request);
    this.#change({ ...this.#state, closed: [record, ...this.#state.closed].slice(0, closedMax) });
  }

  async reopen(record: DraftRecord): Promise<void> {
    const tab = tabOf(record);
    const closed = this.#state.closed.filter(({ draftId }) => draftId !== record.draftId);
    this.#change({ tabs: [...this.#state.tabs, tab], activeId: tab.id, closed });
    this.update(tab.id, {});
  }

  /** Before the page is hidden or closed. */
  saveAtLastMoment(): void {
    for (const tab of this.#state.tabs) {
      if (tab.save === 'saved') continue;
      const body = bodyOf(tab);
      const request =
        tab.version === undefined
          ? lastMomentClient.drafts.create({ draftId: tab.id, ...body }, { ifExists: 'return' })
          : lastMomentClient.drafts(tab.id).update({ ...body, expectedVersion: tab.version });
      request.then(
        ({ version }) => this.#replace(tab.id, { version, save: this.#find(tab.id) === tab ? 'saved' : 'unsaved' }),
        () => undefined,
      );
    }
  }

  #schedule(id: string, ms: number): void {
    clearTimeout(this.#timers.get(id));
    this.#timers.set(
      id,
      setTimeout(() => void this.#save(id), ms),
    );
  }

  async #save(id: string): Promise<void> {
    const tab = this.#find(id);
    if (!tab || tab.save === 'saved' || sessionUser() !== this.#user) return;
    if (this.#saving.has(id)) {
      this.#schedule(id, savePauseMs);
      return;
    }
    this.#saving.add(id);
    this.#replace(id, { save: 'saving' });
    const sent = this.#find(id);
    try {
      const { version } = await this.#write(id, this.#send(tab));
      this.#replace(id, { version, save: this.#find(id) === sent ? 'saved' : 'unsaved' });
    } catch (error) {
      if (error instanceof errors.VERSION_CONFLICT) await this.#keepBoth(tab);
      else {
        this.#replace(id, { save: 'failed', error });
        this.#schedule(id, retryMs);
      }
    } finally {
      this.#saving.delete(id);
    }
  }

  async #write<T>(id: string, request: Promise<T>): Promise<T> {
    this.#writtenAt.set(id, Number.POSITIVE_INFINITY);
    try {
      return await request;
    } finally {
      this.#writtenAt.set(id, performance.now());
    }
  }

  #send(tab: Tab) {
    const body = bodyOf(tab);
    if (tab.version === undefined) return client.drafts.create({ draftId: tab.id, ...body }, { ifExists: 'return' });
    return client.drafts(tab.id).update({ ...body, expectedVersion: tab.version });
  }

  /** The draft was changed elsewhere: that text stays in this tab, and what was written here gets one of its own. */
  async #keepBoth(tab: Tab): Promise<void> {
    const latest = this.#find(tab.id) ?? tab;
    const record = await client.drafts(tab.id).get();
    this.#replace(tab.id, tabOf(record));
    if (record.sql !== latest.sql) this.open({ ...latest, name: `${latest.name} (copy)` });
  }

  #find(id: string): Tab | undefined {
    return this.#state.tabs.find((tab) => tab.id === id);
  }

  #replace(id: string, change: Partial<Tab>): void {
    const tabs = this.#state.tabs.map((tab) => (tab.id === id ? { ...tab, ...change } : tab));
    this.#change({ ...this.#state, tabs });
  }

  #change(state: State): void {
    this.#state = state;
    if (this.#user !== undefined) remember(this.#user, state);
    for (const listener of this.#listeners) listener();
  }
}

const numberOf = ({ name }: Pick<Tab, 'name'>): number => Number(/^Query (\d+)$/.exec(name)?.[1] ?? 0);
const nextName = (tabs: readonly Tab[]): string => `Query ${Math.max(0, ...tabs.map(numberOf)) + 1}`;

/** A tab that was opened before the drafts were known gets another number than theirs. */
const renumbered = (tab: Tab, tabs: readonly Tab[]): Tab =>
  numberOf(tab) > 0 && tabs.some(({ name }) => name === tab.name) ? { ...tab, name: nextName([...tabs, tab]) } : tab;

function initialState(): State {
  const tab = newTab(emptyContent('Query 1'));
  return { tabs: [tab], activeId: tab.id, closed: [] };
}

/** There is always a tab, and one of them is active. */
function withTabs(state: State, tabs: readonly Tab[]): State {
  if (tabs.length === 0) return { ...initialState(), closed: state.closed };
  const isActive = tabs.some(({ id }) => id === state.activeId);
  const before = state.tabs.findIndex(({ id }) => id === state.activeId);
  const next = tabs[Math.max(0, Math.min(before, tabs.length - 1))] as Tab;
  return { ...state, tabs, activeId: isActive ? state.activeId : next.id };
}

const storageKeyOf = (user: string) => `tabularium.tabs.${user}`;

function restored(user: string): State | undefined {
  try {
    const text = sessionStorage.getItem(storageKeyOf(user));
    if (text === null) return undefined;
    const { tabs, activeId } = JSON.parse(text) as Pick<State, 'tabs' | 'activeId'>;
    const unsaved = tabs.map((tab) => ({
      ...tab,
      save: tab.save === 'saved' ? ('saved' as const) : ('unsaved' as const),
    }));
    return unsaved.length > 0 ? { tabs: unsaved, activeId, closed: [] } : undefined;
  } catch {
    return undefined;
  }
}

function remember(user: string, { tabs, activeId }: State): void {
  try {
    const stored = tabs.map(({ error: _error, ...tab }) => tab);
    sessionStorage.setItem(storageKeyOf(user), JSON.stringify({ tabs: stored, activeId }));
  } catch {
    // Too large or forbidden: the texts are in memory and on the server.
  }
}

export const tabsStore = new TabsStore();
export const useTabs = () => useSyncExternalStore(tabsStore.subscribe, tabsStore.state);

document.addEventListener('visibilitychange', () => {
  if (document.visibilityState === 'hidden') tabsStore.saveAtLastMoment();
});
addEventListener('pagehide', () => tabsStore.saveAtLastMoment());

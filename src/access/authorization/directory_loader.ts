// Loads the directory from the store at the start. Reads a page of rows at a time, because all rows at once take many times the memory
// of the resulting records, and interns strings, because many grants repeat them.
import type { Privilege } from '../../model/privileges.ts';
import type { Store } from '../../store/store.ts';
import { type Grant, type Token, tokenOf } from './directory_types.ts';

const rowsPerPage = 5000;

interface Page<R> {
  execute(): Promise<readonly R[]>;
}

/** `pageAfter`: the page that follows a row. */
async function readPages<R>(first: Page<R>, pageAfter: (last: R) => Page<R>, add: (row: R) => void): Promise<void> {
  for (let page = first; ; ) {
    const rows = await page.execute();
    for (const row of rows) add(row);
    const last = rows.at(-1);
    if (last === undefined || rows.length < rowsPerPage) return;
    page = pageAfter(last);
  }
}

/** For one load: it holds the interned strings. */
export class DirectoryLoader {
  readonly #db: Store['db'];
  readonly #interned = new Map<string, string>();
  readonly #paths = new Map<string, readonly string[]>();

  constructor({ db }: Store) {
    this.#db = db;
  }

  /** Objects that are dropped but recoverable. */
  async loadDropped(add: (id: string) => void): Promise<void> {
    const query = this.#db.selectFrom('dropped_objects').select('object_id').orderBy('object_id').limit(rowsPerPage);
    await readPages(
      query,
      (last) => query.where('object_id', '>', last.object_id),
      ({ object_id }) => add(this.intern(object_id)),
    );
  }

  async loadMembers(add: (roleId: string, userId: string) => void): Promise<void> {
    const query = this.#db
      .selectFrom('role_members')
      .selectAll()
      .orderBy('role_id')
      .orderBy('user_id')
      .limit(rowsPerPage);
    await readPages(
      query,
      (last) =>
        query.where(({ eb, refTuple, tuple }) =>
          eb(refTuple('role_id', 'user_id'), '>', tuple(last.role_id, last.user_id)),
        ),
      ({ role_id, user_id }) => add(this.intern(role_id), this.intern(user_id)),
    );
  }

  async loadGrants(add: (grant: Grant) => void): Promise<void> {
    const query = this.#db
      .selectFrom('grants')
      .select(['grant_id', 'grantee_id', 'privilege', 'path', 'created_at', 'created_by'])
      .orderBy('grantee_id')
      .orderBy('grant_id')
      .limit(rowsPerPage);
    await readPages(
      query,
      (last) =>
        query.where(({ eb, refTuple, tuple }) =>
          eb(refTuple('grantee_id', 'grant_id'), '>', tuple(last.grantee_id, last.grant_id)),
        ),
      (row) => {
        const path = this.#path(row.path);
        add({
          grantId: this.intern(row.grant_id),
          granteeId: this.intern(row.grantee_id),
          privilege: this.intern(row.privilege) as Privilege,
          onId: path.at(-1) as string,
          path,
          createdAt: row.created_at,
          createdBy: this.intern(row.created_by),
        });
      },
    );
  }

  async loadTokens(add: (token: Token) => void): Promise<void> {
    const query = this.#db.selectFrom('tokens').selectAll().orderBy('token_id').limit(rowsPerPage);
    await readPages(
      query,
      (last) => query.where('token_id', '>', last.token_id),
      (row) => add({ ...tokenOf(row), userId: this.intern(row.user_id), name: this.intern(row.name) }),
    );
  }

  /** Returns the same string instance for equal strings. */
  intern(text: string): string {
    const interned = this.#interned.get(text);
    if (interned !== undefined) return interned;
    this.#interned.set(text, text);
    return text;
  }

  /** Grants on the same object share one path array. */
  #path(json: string): readonly string[] {
    let path = this.#paths.get(json);
    if (!path) {
      path = (JSON.parse(json) as string[]).map((id) => this.intern(id));
      this.#paths.set(json, path);
    }
    return path;
  }
}

// The state of the page in the URL fragment: "#questions?outcome=failed&q=cat". Views read their
// parameters from the fragment and write them back, so every state has a link.

export function readAddress() {
  const [view, query = ""] = decodeHash().split("?");
  return { view: view || "leaderboard", params: new URLSearchParams(query) };
}

function decodeHash() {
  return location.hash.slice(1);
}

/** Link to `view` with the parameters `keep` and `changes`; null removes a parameter. */
export function link(view, changes = {}, keep = ["benchmark", "show"]) {
  const { params } = readAddress();
  const next = new URLSearchParams();
  for (const key of keep) if (params.has(key)) next.set(key, params.get(key));
  for (const [key, value] of Object.entries(changes)) {
    if (value === null || value === undefined || value === "" || value === false) next.delete(key);
    else next.set(key, value === true ? "1" : value);
  }
  const query = next.toString();
  return query ? `#${view}?${query}` : `#${view}`;
}

/** Change parameters of the current view without a new entry in the browser history. */
export function amend(changes) {
  const { view, params } = readAddress();
  history.replaceState(null, "", link(view, changes, [...params.keys()]));
}

export function go(target) {
  location.hash = target;
}

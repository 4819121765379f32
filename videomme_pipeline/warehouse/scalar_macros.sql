-- The errors and intervals of `scoring/statistics`, which tests compare with these macros. The standard
-- error takes the sum `s` and the count `n` of one cluster (video) per row; rows with a null `n` do not
-- count. Python fills in the constants.
create macro clustered_standard_error(s, n) as
    sqrt(greatest(0, sum(s * s) - 2 * (sum(s) / sum(n)) * sum(s * n)
                     + (sum(s) / sum(n)) ** 2 * sum(n * n))
         * count(n) / nullif(count(n) - 1, 0)) / sum(n);

create macro interval_kind(clusters, standard_error) as
    case when clusters >= $small_cell and standard_error > 0
         then 'clustered_t' else 'wilson' end;

create macro wilson_middle(s, n) as
    (s + $z * $z / 2) / (n + $z * $z);

create macro wilson_half_width(s, n) as
    $z / (n + $z * $z) * sqrt(s * (n - s) / n + $z * $z / 4);

create macro interval_low(s, n, clusters, standard_error, t) as
    case interval_kind(clusters, standard_error)
        when 'wilson' then wilson_middle(s, n) - wilson_half_width(s, n)
        else greatest(s / n - t * standard_error, 0) end;

create macro interval_high(s, n, clusters, standard_error, t) as
    case interval_kind(clusters, standard_error)
        when 'wilson' then wilson_middle(s, n) + wilson_half_width(s, n)
        else least(s / n + t * standard_error, 1) end;

create macro difference_kind(clusters, differing, standard_error) as
    case when clusters < 2 then null
         when differing < $few_differences or standard_error < 1e-9 then 'exact'
         else 'clustered_t' end;

create macro same_share(clusters) as
    (1 - $confidence) ** (1 / clusters);

create macro difference_low(mean, clusters, differing, standard_error, t) as
    case difference_kind(clusters, differing, standard_error)
        when 'exact' then greatest(-1, least(mean - t * standard_error,
                                             same_share(clusters) * (mean + 1) - 1))
        when 'clustered_t' then greatest(-1, mean - t * standard_error) end;

create macro difference_high(mean, clusters, differing, standard_error, t) as
    case difference_kind(clusters, differing, standard_error)
        when 'exact' then least(1, greatest(mean + t * standard_error,
                                            same_share(clusters) * (mean - 1) + 1))
        when 'clustered_t' then least(1, mean + t * standard_error) end;
